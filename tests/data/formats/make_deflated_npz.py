"""Writes deflated.npz beside this script the way numpy.savez_compressed does: deflated, local headers in zip64 form."""
import pathlib
import struct
import zipfile

header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }".ljust(117) + "\n"
array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
array += b"".join(struct.pack("<f", i % 7) for i in range(1000))
entry = zipfile.ZipInfo("ramp.npy", date_time=(1980, 1, 1, 0, 0, 0))
entry.compress_type = zipfile.ZIP_DEFLATED
with zipfile.ZipFile(pathlib.Path(__file__).with_name("deflated.npz"), "w") as archive:
    with archive.open(entry, "w", force_zip64=True) as file:
        file.write(array)
