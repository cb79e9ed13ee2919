#pragma once
inline constexpr int kOwnTensor = 7;
