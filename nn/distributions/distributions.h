// Probability distributions with gradients, named as in torch.distributions.
//
//   const distributions::Categorical policy({.logits = net(state)});
//   Variable action = policy.sample();
//   Variable loss = -policy.log_prob(action) * reward;
//
//   const distributions::Normal posterior(mean, exp(log_std));
//   Variable z = posterior.rsample();                      // differentiable in mean and log_std
//   Variable kl = kl_divergence(posterior, distributions::Normal(0.0, 1.0));
//
// Parameters broadcast to the shape of a batch of distributions. The values equal PyTorch's.
#pragma once

#include "nn/distributions/categorical_distributions.h"
#include "nn/distributions/continuous_distributions.h"
#include "nn/distributions/discrete_distributions.h"
#include "nn/distributions/distribution.h"
#include "nn/distributions/gamma_distributions.h"
#include "nn/distributions/kl_divergence.h"
#include "nn/distributions/matrix_distributions.h"
#include "nn/distributions/normal_distributions.h"
#include "nn/distributions/transformed_distribution.h"
#include "nn/distributions/transforms.h"
#include "nn/distributions/unit_distributions.h"
#include "nn/distributions/vector_transforms.h"
