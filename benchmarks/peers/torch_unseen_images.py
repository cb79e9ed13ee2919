"""The networks of benchmarks/unseen on images, in PyTorch."""
import torch
from torch import nn
from torch.nn import functional as F

from torch_residual import ResNet50
from torch_steps import training

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


def bf16(on):
    return torch.autocast("cpu", torch.bfloat16, enabled=on)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, factor):
        super().__init__()
        width = inputs * factor
        self.expand = nn.Conv2d(inputs, width, 1, bias=False)
        self.depthwise = nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False)
        self.project = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.is_residual = inputs == outputs and stride == 1

    def forward(self, x):
        y = F.relu6(self.norm1(self.expand(x)))
        y = F.relu6(self.norm2(self.depthwise(y)))
        y = self.norm3(self.project(y))
        return x + y if self.is_residual else y


class MobileNet(nn.Module):
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
        blocks, inputs = [], 32
        for factor, channels, depth, stride in self.STAGES:
            for k in range(depth):
                blocks.append(InvertedResidual(inputs, channels, 1 if k else stride, factor))
                inputs = channels
        self.blocks = nn.ModuleList(blocks)
        self.last, self.last_norm = nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280)
        self.fc = nn.Linear(1280, 100)

    def forward(self, x):
        y = F.relu6(self.stem_norm(self.stem(x)))
        for block in self.blocks:
            y = block(y)
        y = F.relu6(self.last_norm(self.last(y)))
        return self.fc(y.mean((2, 3)))


def mobile_net():
    x, y = torch.randn(16, 3, 96, 96), torch.randint(0, 100, (16,))
    return training(MobileNet(), lambda net: F.cross_entropy(net(x), y))


def resnet50(is_bf16=False):
    x, y = torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))

    def loss(net):
        with bf16(is_bf16):
            return F.cross_entropy(net(x), y)

    return training(ResNet50(), loss)


class VitBlock(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, 3, width // 3).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v)
        y = x + self.proj(seen.transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class VitTiny(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 197, width))
        self.blocks = nn.ModuleList(VitBlock() for _ in range(12))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1) + self.place
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y)[:, 0])


def vit_tiny():
    x, y = torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    return training(VitTiny(), lambda net: F.cross_entropy(net(x), y), AdamW)


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = DoubleConv(3, 32), DoubleConv(32, 64), DoubleConv(64, 128)
        self.middle = DoubleConv(128, 256)
        self.up3, self.up2, self.up1 = DoubleConv(256, 128), DoubleConv(128, 64), DoubleConv(64, 32)
        self.grow3 = nn.ConvTranspose2d(256, 128, 2, 2)
        self.grow2 = nn.ConvTranspose2d(128, 64, 2, 2)
        self.grow1 = nn.ConvTranspose2d(64, 32, 2, 2)
        self.out = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        y = self.middle(F.max_pool2d(c, 2))
        y = self.up3(torch.cat([c, self.grow3(y)], 1))
        y = self.up2(torch.cat([b, self.grow2(y)], 1))
        y = self.up1(torch.cat([a, self.grow1(y)], 1))
        return self.out(y)


def u_net():
    x, y = torch.randn(4, 3, 128, 128), torch.randint(0, 2, (4, 128, 128))
    return training(UNet(), lambda net: F.cross_entropy(net(x), y), Adam)


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv3d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv3d(32, 64, 3, padding=1)
        self.conv3 = nn.Conv3d(64, 128, 3, padding=1)
        self.norm1, self.norm2, self.norm3 = (nn.BatchNorm3d(c) for c in (32, 64, 128))
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        y = F.max_pool3d(F.relu(self.norm1(self.conv1(x))), (1, 2, 2))
        y = F.max_pool3d(F.relu(self.norm2(self.conv2(y))), 2)
        y = F.max_pool3d(F.relu(self.norm3(self.conv3(y))), 2)
        return self.fc(F.adaptive_avg_pool3d(y, 1).flatten(1))


def video():
    x, y = torch.randn(4, 3, 16, 32, 32), torch.randint(0, 10, (4,))
    return training(Video(), lambda net: F.cross_entropy(net(x), y), Adam)


class Autoencoder(nn.Sequential):
    def __init__(self):
        layers = []
        for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.ReLU()]
        for inputs, outputs in ((128, 64), (64, 32), (32, 3)):
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.ReLU()]
        super().__init__(*layers[:-1], nn.Sigmoid())


def autoencoder():
    x = torch.rand(32, 3, 64, 64)
    return training(Autoencoder(), lambda net: F.mse_loss(net(x), x), Adam)


class Segmentation(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body = nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1)
        self.wide1 = nn.Conv2d(64, 64, 3, padding=2, dilation=2)
        self.wide2 = nn.Conv2d(64, 64, 3, padding=4, dilation=4)
        self.mixed, self.out = nn.Conv2d(192, 64, 1), nn.Conv2d(64, 21, 1)
        self.norm1, self.norm2, self.norm3 = (nn.BatchNorm2d(c) for c in (32, 64, 64))

    def forward(self, x):
        y = F.relu(self.norm2(self.body(F.relu(self.norm1(self.stem(x))))))
        parts = torch.cat([y, F.relu(self.wide1(y)), F.relu(self.wide2(y))], 1)
        scores = self.out(F.relu(self.norm3(self.mixed(parts))))
        return F.interpolate(scores, scale_factor=4, mode="bilinear")


def segmentation():
    x, y = torch.randn(4, 3, 128, 128), torch.randint(0, 21, (4, 128, 128))
    return training(Segmentation(), lambda net: F.cross_entropy(net(x), y))


class Detection(nn.Module):
    def __init__(self, classes=20, boxes=6):
        super().__init__()
        self.classes = classes
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1)
        self.conv3, self.conv4 = nn.Conv2d(64, 128, 3, 2, 1), nn.Conv2d(128, 128, 3, 2, 1)
        self.norm1, self.norm2 = nn.GroupNorm(8, 64), nn.GroupNorm(8, 128)
        self.class3, self.class4 = (nn.Conv2d(128, boxes * classes, 3, 1, 1) for _ in range(2))
        self.box3, self.box4 = (nn.Conv2d(128, boxes * 4, 3, 1, 1) for _ in range(2))

    @staticmethod
    def rows(y, columns):
        return y.permute(0, 2, 3, 1).reshape(y.shape[0], -1, columns)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv2(F.relu(self.conv1(x)))))
        a = F.relu(self.norm2(self.conv3(y)))
        b = F.relu(self.conv4(a))
        scores = [self.rows(y, self.classes) for y in (self.class3(a), self.class4(b))]
        return torch.cat(scores, 1), torch.cat([self.rows(self.box3(a), 4), self.rows(self.box4(b), 4)], 1)


def detection():
    places = (16 * 16 + 8 * 8) * 6
    x, boxes = torch.randn(8, 3, 128, 128), torch.randn(8, places, 4)
    classes = (torch.rand(8, places, 20) < 0.01).float()

    def loss(net):
        scores, found = net(x)
        return F.binary_cross_entropy_with_logits(scores, classes) + F.smooth_l1_loss(found, boxes)

    return training(Detection(), loss, Adam)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.fc = nn.Conv2d(3, 96, 4, 4), nn.Linear(96, 100)
        self.blocks = nn.Sequential(*(ConvNextBlock(96) for _ in range(4)))

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class SqueezeBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width)
        self.reduce, self.expand = nn.Conv2d(width, width // 8, 1), nn.Conv2d(width // 8, width, 1)

    def forward(self, x):
        y = F.silu(self.norm(self.conv(x)))
        gate = torch.sigmoid(self.expand(F.silu(self.reduce(y.mean((2, 3), True)))))
        return x + y * gate


class SqueezeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.fc = nn.Conv2d(3, 64, 3, 2, 1), nn.Linear(64, 10)
        self.blocks = nn.Sequential(*(SqueezeBlock(64) for _ in range(4)))

    def forward(self, x):
        return self.fc(self.blocks(F.silu(self.stem(x))).mean((2, 3)))


def classifier(make, batch, side, classes):
    x, y = torch.randn(batch, 3, side, side), torch.randint(0, classes, (batch,))
    return training(make(), lambda net: F.cross_entropy(net(x), y), AdamW)
