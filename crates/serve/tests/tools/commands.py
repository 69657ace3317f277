# Every command of the protocol with every flag, through libnbd, against a copy of the volume in memory.
# Run by nbdsh; `uri` and `name` (of the export) are set before the first line.
import errno
import random

SIZE = 40 << 20
MOST = 32 << 20
read_only = name == "ro"
draw = random.Random(7)
model = bytearray(SIZE)


def connect(structured=True):
    handle = nbd.NBD()
    # Send what the server must refuse.
    handle.set_strict_mode(0)
    handle.set_request_structured_replies(structured)
    handle.add_meta_context("base:allocation")
    handle.connect_uri(uri)
    assert handle.get_size() == SIZE
    assert handle.get_structured_replies_negotiated() == structured
    return handle


def refused(number, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except nbd.Error as error:
        assert error.errnum == number, (error, number)
    else:
        raise AssertionError(f"{call.__name__} {arguments[1:]} must fail with {errno.errorcode[number]}")


def write(handle, offset, length, flags=0):
    data = draw.randbytes(length)
    handle.pwrite(data, offset, flags)
    model[offset:offset + length] = data


def zero(handle, offset, length, flags=0):
    handle.zero(length, offset, flags)
    model[offset:offset + length] = bytes(length)


def check(handle, offset=0, length=None):
    """A read in pieces of at most 32 MiB gives what the model has."""
    end = SIZE if length is None else offset + length
    while offset < end:
        piece = min(MOST, end - offset)
        assert handle.pread(piece, offset) == model[offset:offset + piece], (offset, piece)
        offset += piece


def abilities(handle, structured):
    assert handle.is_read_only() == read_only
    assert handle.can_flush() and handle.can_cache() and handle.can_multi_conn()
    assert handle.can_df() == structured
    assert handle.can_fua() == handle.can_zero() == (not read_only)
    assert handle.get_block_size(nbd.SIZE_MINIMUM) == 1
    assert handle.get_block_size(nbd.SIZE_MAXIMUM) == MOST


def sizes(handle):
    """From one byte to the longest there may be, at odd places."""
    for length in [1, 3, 511, 512, 513, 4095, 4096, 4097, 65535, 65537, (1 << 20) + 7, MOST - 1, MOST]:
        offset = draw.randrange(SIZE - length) | 1
        write(handle, offset, length)
        check(handle, max(offset - 5000, 0), min(length + 10000, SIZE - max(offset - 5000, 0)))
    check(handle)


def flags(handle):
    write(handle, 123, 4567, nbd.CMD_FLAG_FUA)
    zero(handle, 1000, 3000)
    zero(handle, 70000, 200001, nbd.CMD_FLAG_NO_HOLE)
    zero(handle, 1 << 20, 1 << 20, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
    try:
        zero(handle, 4 << 20, 1 << 20, nbd.CMD_FLAG_FAST_ZERO)
    except nbd.Error as error:
        # Slow would be wrong; saying that it would be slow is not.
        assert error.errnum == errno.ENOTSUP
    handle.flush()
    check(handle)
    if handle.can_trim():
        handle.trim(1 << 20, 5 << 20)
        handle.trim(77777, (6 << 20) + 11, nbd.CMD_FLAG_FUA)
        # What was given back may read as anything, and must be writable again; its neighbours are untouched.
        write(handle, 5 << 20, 1 << 20)
        write(handle, (6 << 20) + 11, 77777)
    handle.cache(1 << 20, 12345)
    check(handle)


def many_at_once(handle):
    """Writes and reads in flight together; those that overlap are not."""
    piece = 96 * 1024 + 3
    places = [n * piece for n in range(64)]
    buffers = [bytearray(draw.randbytes(piece)) for _ in places]
    for command in (handle.aio_pwrite, handle.aio_pread):
        held = [nbd.Buffer.from_bytearray(b) if command == handle.aio_pwrite else nbd.Buffer(piece) for b in buffers]
        cookies = [command(b, at) for b, at in zip(held, places)]
        while handle.aio_in_flight() > 0:
            for cookie in [c for c in cookies if handle.aio_command_completed(c)]:
                cookies.remove(cookie)
            if handle.aio_in_flight() > 0:
                handle.poll(20000)
    for at, wrote, read in zip(places, buffers, held):
        assert read.to_bytearray() == wrote
        model[at:at + piece] = wrote


def structured(handle):
    """Reads as chunks; one of them with DF."""
    for length, flag in [(9 << 20, 0), (9 << 20, nbd.CMD_FLAG_DF), (1, nbd.CMD_FLAG_DF), (MOST, nbd.CMD_FLAG_DF)]:
        chunks = []

        def chunk(data, offset, status, error):
            assert error.value == 0
            chunks.append((offset, len(data)))
            assert status == nbd.READ_HOLE or data == model[offset:offset + len(data)]

        at = 4321
        assert handle.pread_structured(length, at, chunk, flag) == model[at:at + length]
        assert sum(c[1] for c in chunks) == length
        assert flag == 0 or len(chunks) == 1, chunks


def status(handle):
    """The extents cover the range; what was written is data, and a zero that is a hole reads as one."""
    def extents(length, offset, flag=0):
        found = []

        def extent(context, at, entries, error):
            assert context == "base:allocation" and at == offset and error.value == 0
            found.extend(zip(entries[::2], entries[1::2]))

        handle.block_status(length, offset, extent, flag)
        return found

    at = 0
    while at < SIZE:
        for length, kind in extents(SIZE - at, at):
            assert length > 0
            if kind & 2:
                assert not any(model[at:at + length]), (at, length)
            at += length
    assert at == SIZE
    assert len(extents(SIZE, 0, nbd.CMD_FLAG_REQ_ONE)) == 1
    assert extents(1, 12345, nbd.CMD_FLAG_REQ_ONE)[0][0] == 1
    refused(errno.EINVAL, handle.block_status, SIZE + 1, 0, lambda *a: 0)
    refused(errno.EINVAL, handle.block_status, 1, SIZE, lambda *a: 0)


def errors(handle):
    """What is refused leaves the connection as it was."""
    far = [(SIZE, 1), (SIZE - 1, 2), ((1 << 63) - 1, 1), (1 << 40, 4096), (0, MOST + 1)]
    for offset, length in far:
        refused(errno.EINVAL, handle.pread, length, offset)
        refused(errno.EINVAL, handle.cache, SIZE + 1, offset)
    refused(errno.EINVAL, handle.pread, 0, 0)
    refused(errno.EINVAL, handle.pread, 512, 0, nbd.CMD_FLAG_NO_HOLE)
    refused(errno.EINVAL, handle.cache, 512, 0, nbd.CMD_FLAG_FAST_ZERO)
    modifying = [
        (lambda offset, length, flags=0: handle.pwrite(bytes(length), offset, flags), errno.ENOSPC),
        (lambda offset, length, flags=0: handle.zero(length, offset, flags), errno.ENOSPC),
        (lambda offset, length, flags=0: handle.trim(length, offset, flags), errno.EINVAL),
    ]
    for call, number in modifying:
        if read_only:
            refused(errno.EPERM, call, 0, 512)
            refused(errno.EPERM, call, SIZE, 512)
            continue
        for offset, length in far[:4]:
            refused(number, call, offset, length)
        refused(errno.EINVAL, call, 0, 0)
        refused(errno.EINVAL, call, 0, 512, nbd.CMD_FLAG_DF)
        refused(errno.EINVAL, call, 0, 512, nbd.CMD_FLAG_REQ_ONE)
    check(handle, 0, 1 << 20)


def too_long():
    """A payload that nobody can be asked to skip ends the connection, and only that one."""
    handle, other = connect(), connect()
    try:
        handle.pwrite(bytes(MOST + 4096), 0)
    except nbd.Error:
        pass
    else:
        raise AssertionError("a write of more than 32 MiB must fail")
    check(other, 0, 1 << 20)


for with_chunks in (True, False):
    handle = connect(with_chunks)
    abilities(handle, with_chunks)
    if not read_only:
        sizes(handle)
        flags(handle)
        many_at_once(handle)
    if with_chunks:
        structured(handle)
        status(handle)
    errors(handle)
    check(handle)
    handle.shutdown()
if not read_only:
    # What one connection has flushed every other one reads.
    first, second = connect(), connect()
    write(first, 4242, 99999)
    first.flush()
    check(second)
    too_long()
check(connect())
print("well")
