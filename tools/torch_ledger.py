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


def signs_of(bits):
    return 1.0 - 2.0 * (bits & np.uint64(1))


ROW_SIGNS = signs_of(np.uint64(0x68B18CA8) >> np.arange(32, dtype=np.uint64))
LANE_SIGNS = [signs_of(mix(np.array([(1 << 40) + k], np.uint64)) >> np.arange(64, dtype=np.uint64))
              for k in (156, 152)]


class TorchLedger:
    def __init__(self, model):
        self.rows, self.strings = [], [""]
        for name, module in model.named_modules():
            if name:
                module.register_forward_hook(lambda m, x, y, name=name: self.note(name, m, y))

    def note(self, name, module, output):
        # Tiles of 32 rows of 64 lanes; each has a sign (ops/internal/sketch_signs.h).
        x = output.detach().cpu().double().numpy().ravel()
        tiles = np.concatenate([x, np.zeros(-x.size % 2048)]).reshape(-1, 32, 64)
        rows = np.einsum("trl,r->tl", tiles, ROW_SIGNS)
        tile = np.arange(len(tiles), dtype=np.uint64)
        of_tile = ROW_SIGNS[tile % np.uint64(32)] * signs_of(mix(tile // np.uint64(32)))
        sums = [of_tile @ rows @ LANE_SIGNS[k] for k in (0, 1)]
        shape = f"{str(output.dtype)[6:]} [{', '.join(map(str, output.shape))}]"
        words = [self.string(text) for text in (type(module).__name__, name, "", shape)]
        self.rows.append((0, (*sums, np.linalg.norm(rows)), (0, 0, 1, *words), 3))

    def string(self, text):
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def save(self, path):
        types = {"hashes": "<i8", "sums": "<f8", "numbers": "<i4", "pass": "u1"}
        arrays = {n: np.array(c, t) for (n, t), c in zip(types.items(), zip(*self.rows))}
        arrays["strings"] = np.frombuffer("".join(s + "\n" for s in self.strings).encode(), "u1")
        header, at = {}, 0
        for name, a in arrays.items():
            kind = {"i8": "I64", "f8": "F64", "i4": "I32", "u1": "U8"}[a.dtype.str[1:]]
            header[name] = {"dtype": kind, "shape": a.shape, "data_offsets": [at, at + a.nbytes]}
            at += a.nbytes
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.write(b"".join(a.tobytes() for a in arrays.values()))
