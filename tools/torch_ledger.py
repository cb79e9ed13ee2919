"""Records the outputs of a PyTorch model's modules for tapegrad's compare_runs().

    from torch_ledger import TorchLedger
    ledger = TorchLedger(model)      # from here on
    loss = criterion(model(x), y)
    ledger.save("torch.ledger")
"""
import json
import struct

import numpy as np


def mix(x):  # splitmix64, as in ops/internal/sketch_signs.h
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class TorchLedger:
    def __init__(self, model):
        self.rows, self.strings = [], [""]
        for name, module in model.named_modules():
            if name:
                module.register_forward_hook(lambda m, x, y, name=name: self.note(name, m, y))

    def note(self, name, module, output):
        x = output.detach().cpu().double().numpy().ravel()
        i = np.arange(x.size, dtype=np.uint64)
        block, lane = i // np.uint64(64), i % np.uint64(64)
        of_block = mix(block // np.uint64(64)) >> block % np.uint64(64)
        sums = []
        for k in (0, 1):
            of_lane = mix(np.array([(1 << 40) + k], dtype=np.uint64)) >> lane
            sums.append(x @ (1.0 - 2.0 * ((of_block ^ of_lane) & np.uint64(1))))
        shape = f"{str(output.dtype)[6:]} [{', '.join(map(str, output.shape))}]"
        words = [self.string(text) for text in (type(module).__name__, name, "", shape)]
        self.rows.append((0, *sums, np.linalg.norm(x), 1, 3, *words))

    def string(self, text):
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def save(self, path):
        names = ("hash", "sum0", "sum1", "norm", "step", "pass", "op", "module", "line", "type")
        types = ("<i8", "<f8", "<f8", "<f8", "<i4", "u1", "<i4", "<i4", "<i4", "<i4")
        arrays = {n: np.array(c, t) for n, c, t in zip(names, zip(*self.rows), types)}
        arrays["strings"] = np.frombuffer("".join(s + "\n" for s in self.strings).encode(), "u1")
        header, at = {}, 0
        for name, a in arrays.items():
            kind = {"i8": "I64", "f8": "F64", "i4": "I32", "u1": "U8"}[a.dtype.str[1:]]
            header[name] = {"dtype": kind, "shape": [a.size], "data_offsets": [at, at + a.nbytes]}
            at += a.nbytes
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.write(b"".join(a.tobytes() for a in arrays.values()))
