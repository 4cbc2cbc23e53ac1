package recordbatch

import (
	"errors"
	"sync"
)

// keptScratch is the size, in bytes, up to which a buffer for decompressed records is kept for the
// next batch. Most clients limit the records of a batch to a megabyte.
const keptScratch = 2 << 20

// scratches are buffers for decompressed records, for reuse.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// Check are the checks of [Verify] besides that a batch is well formed. The zero Check refuses
// control batches, has no limit of size, and does not decompress.
type Check struct {
	// Room is as [Decoder].Room. When Verify returns, the memory that it has allowed is not in use.
	Room func(n int) error

	MaxBytes int  // bytes of the whole batch; 0 means no limit
	Keys     bool // every record must have a key; compressed batches are decompressed to check it
	Open     bool // compressed batches are decompressed, to check their records
	Control  bool // control batches are allowed: only for the broker's own markers
}

// Verify checks that data, which came from a client, is exactly one record batch that may be
// stored, and returns its header. It checks size, magic, lengths, codec and CRC; that there are as
// many offsets as records; the attributes, producer and timestamps of the header; and the encoding
// of the records, unless they are compressed and c does not say otherwise. Its errors are [*Error],
// or that of c.Room as it is.
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

// admissible checks the header by the rules for batches that are not stored yet.
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

// verifyRecords checks the records.
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
		if r.numHeaders > MaxHeaders {
			return errorf(BadRecord, "record %d of %d has %d headers: the limit is %d", i, b.NumRecords, r.numHeaders, MaxHeaders)
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
