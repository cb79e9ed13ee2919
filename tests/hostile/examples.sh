#!/usr/bin/env bash
# T75: flags that make no sense end an example before it runs, with status 1 and the flag's name:
# examples.sh FOLDER_OF_THE_EXAMPLES
set -u
cd "$1"
failures=0
refuse() {  # WORDS_IN_THE_MESSAGE PROGRAM ARGUMENTS...
  local words=$1
  shift
  local message status
  message=$(timeout 60 "./$@" 2>&1 >/dev/null)
  status=$?
  if [ $status -ne 1 ] || [[ $message != *"$words"* ]]; then
    echo "status $status of: $*"
    echo "  $message"
    failures=$((failures + 1))
  fi
}
for lr in nan -1 inf; do
  refuse --lr mnist_cnn --lr=$lr
  refuse --lr peaks --lr=$lr --epochs=1
  refuse --lr quickstart --lr=$lr --epochs=1
done
for program in mnist_cnn peaks quickstart; do refuse --epochs $program --epochs=-1; done
for program in mnist_cnn peaks bottleneck; do refuse --batch_size $program --batch_size=-1; done
for program in mnist_cnn peaks bottleneck quickstart custom_op cartpole char_gpt lstm_lm vae \
  precision resnet_cifar word2vec; do
  refuse seed $program --seed=-1
  refuse "unknown argument: word" $program word
  refuse cpu:3 $program --device=cpu:3
done
for program in cartpole char_gpt lstm_lm vae; do
  refuse --lr $program --lr=nan
  refuse --width $program --width=0
  refuse --out $program --out=/proc/folder
done
for program in precision resnet_cifar word2vec; do
  refuse --epochs $program --epochs=-1
  refuse --out $program --out=/proc/folder
done
refuse --rows peaks --rows=0
refuse --schedule resnet_cifar --schedule=x --data_dir=drawn --train=8 --test=8
refuse --model word2vec --model=x --corpus=/usr/share/common-licenses
refuse --analogies word2vec --analogies=a --corpus=/usr/share/common-licenses --max_words=100 --epochs=0
refuse "is not one of" word2vec --similar=qwxyz --corpus=/usr/share/common-licenses --epochs=1000000
refuse "at least 0" peaks --epochs=-1
refuse "must divide" char_gpt --heads=3
refuse "no letter" char_gpt --prompt=$'\001'
refuse "no text in" char_gpt --text=/dev/null/text
refuse --discount cartpole --discount=2
refuse --seeds peaks --seeds=0
refuse --steps bottleneck --steps=0
refuse --evaluate bottleneck --evaluate=-1
refuse --solved cartpole --solved=nan
refuse --batch_size word2vec --batch_size=1000 --corpus=/usr/share/common-licenses --max_words=100
refuse --points custom_op --points=-1
refuse --timeout mnist_cnn --timeout=-1
refuse timeout mnist_cnn --distributed --timeout=inf
refuse --out mnist_cnn --out=/dev/null/folder
refuse --out peaks --out=/proc/folder
# Data sets that cannot be trained with: no images for training, and test images of another size.
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
images='\0\0\010\003' labels='\0\0\010\001' one='\0\0\0\001' two='\0\0\0\002' none='\0\0\0\0'
printf "$images$none$two$two" >"$data/train-images-idx3-ubyte"
printf "$labels$none" >"$data/train-labels-idx1-ubyte"
printf "$images$one$two$two\1\2\3\4" >"$data/t10k-images-idx3-ubyte"
printf "$labels$one\1" >"$data/t10k-labels-idx1-ubyte"
refuse "0 training images" mnist_cnn --data_dir="$data"
printf "$images$one$one$two\1\2" >"$data/train-images-idx3-ubyte"
printf "$labels$one\1" >"$data/train-labels-idx1-ubyte"
refuse "test images of" mnist_cnn --data_dir="$data"
if [ -w /dev/full ]; then
  timeout 60 ./quickstart --epochs=1 >/dev/full 2>/dev/null && {
    echo "status 0 of an example whose output was lost"
    failures=$((failures + 1))
  }
fi
exit $((failures > 0))
