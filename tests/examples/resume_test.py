"""Kills an example in the middle of its run, continues it with --resume, and compares all saved
tensors and all printed losses with those of a run that was left alone.

    resume_test.py PROGRAM [FLAG...]
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

program = sys.argv[1:]


def run(folder, *more):
    done = subprocess.run(program + ["--out=" + folder, *more], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("exit status %d of %s %s" % (done.returncode, program, more))
    return done.stdout


def kill_after_a_checkpoint(folder):
    child = subprocess.Popen(program + ["--out=" + folder], stdout=subprocess.DEVNULL)
    while not glob.glob(folder + "/run*.safetensors") and child.poll() is None:
        time.sleep(0.001)
    child.kill()
    if child.wait() >= 0:
        sys.exit("the run ended before it could be killed: make it longer")


def losses(text):
    return re.findall(r"(?:loss|perplexity|held out|test|episodes):? ([-+.\de]+)", text)


def tensors(path):
    """Returns the bytes of each tensor of a safetensors file, without tensors that depend on the time."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: data[slice(*entry["data_offsets"])]
        for name, entry in header.items()
        if not name.endswith("seconds") and name != "checksum"
    }


with tempfile.TemporaryDirectory() as scratch:
    whole, parted = scratch + "/whole", scratch + "/parted"
    expected = losses(run(whole))
    kill_after_a_checkpoint(parted)
    text = run(parted, "--resume")
    rest = losses(text)
    if "continues" not in text and len(rest) >= len(expected):
        sys.exit("the run began anew:\n" + text)
    if expected[len(expected) - len(rest):] != rest:
        sys.exit("losses %s\nend with %s in the resumed run" % (expected, rest))
    # A run that is done makes no step, of which it has no time.
    again = run(parted, "--resume")
    if re.search(r"\b(inf|nan)\b|\de\+\d", again):
        sys.exit("resumed after its end, the run printed:\n" + again)
    files = [os.path.basename(path) for path in glob.glob(whole + "/*.safetensors")]
    for file in files:
        one, other = tensors(whole + "/" + file), tensors(parted + "/" + file)
        for name in sorted(one.keys() | other.keys()):
            if one.get(name) != other.get(name):
                sys.exit("%s: %s differs" % (file, name))
    print("%d files and %d losses are equal" % (len(files), len(rest)))
