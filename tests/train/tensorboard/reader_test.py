#!/usr/bin/env python3
"""Reads event files with TensorBoard's own reader: reader_test.py WRITE_EVENTS

Exits with 77, which CTest reports as skipped, if there is no TensorBoard.
"""
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
except ImportError as error:
    print(f"skipped: {error}; install it with pip install tensorboard")
    sys.exit(77)


def pixels(png, row_bytes):
    """The rows of an image whose filter is 0 in all rows."""
    data, at = b"", 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        content = png[at + 8:at + 8 + size]
        assert zlib.crc32(kind + content) == struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]
        data += content if kind == b"IDAT" else b""
        at += 12 + size
    raw = zlib.decompress(data)
    return [list(raw[i + 1:i + 1 + row_bytes]) for i in range(0, len(raw), row_bytes + 1)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        events = event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0})
        events.Reload()
        tags = events.Tags()
        assert sorted(tags["scalars"]) == ["accuracy", "loss", "lr", "val_accuracy", "val_loss"], tags
        losses = events.Scalars("loss")
        assert [each.step for each in losses] == [1, 2, 3]
        assert losses[2].value < losses[0].value
        assert events.Scalars("lr")[0].value == struct.unpack("f", struct.pack("f", 0.01))[0]

        names = [f"{kind}/{layer}.{part}" for kind in ("weights", "gradients")
                 for layer in "02" for part in ("weight", "bias")]
        assert sorted(tags["histograms"]) == sorted(names + ["known"]), tags["histograms"]
        known = events.Histograms("known")[0].histogram_value
        assert (known.min, known.max, known.num, known.sum) == (-1, 0.5, 4, 0), known
        assert known.sum_squares == 1.5 and sum(known.bucket) == 4
        assert len(known.bucket) == len(known.bucket_limit)
        for limit, count in zip(known.bucket_limit, known.bucket):
            assert count == 0 or any(v <= limit for v in (-1, 0, 0.5))
        weights = events.Histograms("weights/0.weight")[0].histogram_value
        assert weights.num == 32 == sum(weights.bucket)

        grey = events.Images("grey")[0]
        assert (grey.height, grey.width) == (2, 3)
        assert pixels(grey.encoded_image_string, 3) == [[0, 51, 102], [153, 204, 255]]
        grid = events.Images("grid")[0]
        assert (grid.height, grid.width) == (8, 12), "five images in two rows"

        text = events.Tensors("notes/text_summary")[0].tensor_proto
        assert text.string_val[0] == b"**no** dropout"
        assert events.SummaryMetadata("notes/text_summary").plugin_data.plugin_name == "text"

        graph = events.Graph()  # a GraphDef
        ops = [node.op for node in graph.node]
        assert ops.count("leaf") == 4 and "cross_entropy" in ops and len(ops) >= 7, ops
        names = {node.name for node in graph.node}
        assert all(source in names for node in graph.node for source in node.input)
        assert any(b"float32 [8, 4]" in node.attr["value"].s for node in graph.node)

        content = events.summary_metadata["_hparams_/experiment"].plugin_data.content
        experiment = plugin_data_pb2.HParamsPluginData.FromString(content).experiment
        assert [info.name for info in experiment.hparam_infos] == ["depth", "lr", "optimizer"]
        assert experiment.metric_infos[0].name.tag == "val_loss"
        content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
        start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        assert start.hparams["lr"].number_value == 0.01
        assert start.hparams["optimizer"].string_value == "adam"
        print(f"TensorBoard reads {len(tags['scalars'])} scalars, {len(tags['histograms'])} "
              f"histograms, 2 images, a text, a graph of {len(ops)} nodes and hyper-parameters")


if __name__ == "__main__":
    main()
