"""Draws the picture in README.md from the table of two threads in docs/benchmarks.md:

  picture.py docs/benchmarks.md >docs/images/benchmarks.svg
"""
import html
import re
import sys

MODELS = {
    "peaks.step": "perceptron, 40,000 rows",
    "article_cnn_128.step": "small CNN, batch 128",
    "keras_cnn.step": "Keras CNN, batch 128",
    "lstm_lm.step": "LSTM language model",
    "gpt.step": "GPT, 4 blocks",
    "resnet18.step": "ResNet-18, batch 64",
}
WIDTH, LEFT, RIGHT, TOP = 760, 190, 110, 84
BAR, GAP = 13, 17  # height of a bar, space between two models

# The picture has its own background, because a page and a browser may disagree about the scheme.
STYLE = """
svg { font-family: "DejaVu Sans", Helvetica, Arial, sans-serif; font-size: 13px }
.page { fill: #ffffff } .text { fill: #1f2328 } .note { fill: #59636e; font-size: 12px }
.title { font-size: 16px; font-weight: bold }
.bar0 { fill: #0b6bcb } .bar1 { fill: #a9b4c0 } .bar2 { fill: #d0a15c }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117 } .text { fill: #e6edf3 } .note { fill: #9198a1 }
  .bar0 { fill: #58a6ff } .bar1 { fill: #6b7684 } .bar2 { fill: #b98a45 }
}
"""


def read(page):
    """Returns the line that names the machine, the programs and {model: [(milliseconds, ratio)]}.

    The column behind a program's times has the ratio of these times to tapegrad's."""
    machine = re.search(r"at commit (\w+: .*?)\.$", page, re.MULTILINE).group(1)
    table = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in page.split("## 2 threads")[1].split("\n## ")[0].splitlines()
             if line.startswith("|")]
    header = table[0]
    columns = [i for i, name in enumerate(header)
               if name in ("tapegrad", "libtorch") or name.startswith("PyTorch")]
    rows = {row[0]: [(float(row[i].split()[0]), row[i + 1]) for i in columns]
            for row in table if row[0] in MODELS}
    return machine, [header[i] for i in columns], rows


def text(x, y, content, style="text", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
            f"{html.escape(content)}</text>")


def draw(machine, programs, rows):
    most = max(time / times[0][0] for times in rows.values() for time, _ in times)
    unit = (WIDTH - LEFT - RIGHT) / most
    shapes = [text(20, 30, "Time of a training step on two CPU cores: shorter is faster", "text title")]
    x = 20
    for i, program in enumerate(programs):
        shapes.append(f'<rect x="{x}" y="46" width="12" height="12" class="bar{i}"/>')
        shapes.append(text(x + 18, 57, program))
        x += 50 + 8 * len(program)
    y = TOP
    for model, title in MODELS.items():
        times = rows[model]
        shapes.append(text(LEFT - 12, y + BAR * len(times) / 2 + 5, title, anchor="end"))
        for i, (time, ratio) in enumerate(times):
            length = unit * time / times[0][0]
            shapes.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" '
                          f'class="bar{i}"/>')
            label = f"{time:g} ms, {ratio}" if i else f"{time:g} ms"
            shapes.append(text(LEFT + length + 6, y + BAR - 3, label, "note"))
            y += BAR
        y += GAP
    shapes.append(text(20, y + 8, f"docs/benchmarks.md, commit {machine}", "note"))
    height = y + 24
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                      f'viewBox="0 0 {WIDTH} {height}">', f"<style>{STYLE}</style>",
                      f'<rect width="{WIDTH}" height="{height}" rx="8" class="page"/>', *shapes,
                      "</svg>"])


print(draw(*read(open(sys.argv[1]).read())))
