package recordbatch

import (
	"errors"
	"sync"
)

// keptScratch is how large a buffer for decompressed records may be to be kept for the next
// batch. Clients fill batches up to a megabyte of records.
const keptScratch = 2 << 20

// scratches are buffers for decompressed records.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// Check says what [Verify] demands beyond a well-formed batch. The zero Check is
// what a broker demands of a client's batch, without a limit of size.
type Check struct {
	// Room is as that of [Decoder]. What it allowed is free when Verify returns.
	Room func(n int) error

	MaxBytes int  // bytes of the whole batch; 0 means no limit
	Keys     bool // every record must have a key; compressed batches are opened to see
	Open     bool // open compressed batches and check their records too
	Control  bool // allow control batches: only for the broker's own transaction markers
}

// Verify decides whether data, which came from outside, is exactly one record
// batch that may be stored, and returns its header. It checks size, magic,
// lengths, codec, CRC, that offsets and records are as many, that no control or
// delete-horizon bit is set, and walks the records of a batch that is not
// compressed. Its errors are [*Error].
func Verify(data []byte, c Check) (Batch, error) {
	if c.MaxBytes > 0 && len(data) > c.MaxBytes {
		return Batch{}, errorf(TooLarge, "the batch has %d bytes: the limit is %d", len(data), c.MaxBytes)
	}
	b, err := Parse(data)
	if err != nil {
		return b, err
	}
	if !Intact(data) {
		return b, errorf(Corrupt, "CRC-32C is %08x, the batch says %08x", Checksum(data), uint32(b.CRC))
	}
	if b.Codec() > Zstd {
		return b, errorf(UnknownCodec, "codec %d: want 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)", b.Codec())
	}
	if err := b.admissible(c.Control); err != nil {
		return b, err
	}
	return b, b.verifyRecords(c)
}

// admissible checks the rules for batches that are not yet in a log.
func (b *Batch) admissible(control bool) error {
	_, horizon := b.DeleteHorizon()
	switch {
	case b.LastOffsetDelta != b.NumRecords-1:
		return errorf(BadRecord, "last offset delta %d with %d records: want one less than the records", b.LastOffsetDelta, b.NumRecords)
	case b.Control() && !control:
		return errorf(BadRecord, "clients may not write control batches")
	case horizon:
		return errorf(BadRecord, "clients may not set a delete horizon")
	case b.Attributes&^(codecMask|logAppendBit|transactionBit|controlBit) != 0:
		return errorf(BadRecord, "attributes %#04x have bits that no version defines", uint16(b.Attributes))
	case b.Transactional() && (b.ProducerID < 0 || b.ProducerEpoch < 0):
		return errorf(BadRecord, "a transactional batch without producer id and epoch")
	case b.FirstTimestamp < NoTimestamp || b.MaxTimestamp < NoTimestamp:
		return errorf(BadTimestamp, "timestamps %d to %d: want -1 (none) or more", b.FirstTimestamp, b.MaxTimestamp)
	}
	return nil
}

func (b *Batch) verifyRecords(c Check) error {
	body := b.Records
	if b.Codec() != None {
		if !c.Open && !c.Keys {
			return nil
		}
		scratch := scratches.Get().(*[]byte)
		defer scratches.Put(scratch)
		out, err := decompress((*scratch)[:0], body, b.Codec(), MaxUncompressed, c.Room)
		if errors.Is(err, errTooLong) {
			return errorf(TooLarge, "the records cannot be decompressed (%s): %v", b.Codec(), err)
		}
		if err != nil {
			return undecodable(b.Codec(), err)
		}
		if body = out; cap(out) <= keptScratch {
			*scratch = out
		}
	}
	var r raw
	for i := range b.NumRecords {
		var err error
		if body, err = r.split(body); err != nil {
			return errorf(BadRecord, "record %d of %d: %v", i, b.NumRecords, err)
		}
		if r.offsetDelta != i {
			return errorf(BadRecord, "record %d of %d has offset delta %d", i, b.NumRecords, r.offsetDelta)
		}
		if c.Keys && r.key == nil && !b.Control() {
			return errorf(BadRecord, "record %d of %d has no key: a compacted topic demands one", i, b.NumRecords)
		}
	}
	if len(body) > 0 {
		return errorf(BadRecord, "%d bytes follow the last of %d records", len(body), b.NumRecords)
	}
	return nil
}
