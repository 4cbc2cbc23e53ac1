package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The limits of one batch.
const (
	// MaxRecords bounds the offsets of a batch, and so its records. It is checked before the batch
	// is decompressed.
	MaxRecords = 1 << 24
	// MaxUncompressed bounds the bytes of a batch's records after decompression.
	MaxUncompressed = 128 << 20
	// MaxHeaders bounds the headers of a record that [Verify] accepts: decoded, they take 40 bytes
	// each, even if they are empty.
	MaxHeaders = 1 << 20
)

// HeaderSize is the size of a batch header, in bytes. The records follow it.
const HeaderSize = 61

// Offsets in bytes of the fields that are read or written without decoding the header.
const (
	atBaseOffset   = 0
	atLength       = 8
	atLeaderEpoch  = 12
	atMagic        = 16
	atCRC          = 17
	atAttributes   = 21 // also where the bytes under the CRC begin
	atLastDelta    = 23
	atMaxTimestamp = 35
	lengthPrefix   = 12 // base offset and length, which the length field does not count
)

// Attribute bits.
const (
	codecMask       = 0x07
	logAppendBit    = 1 << 3
	transactionBit  = 1 << 4
	controlBit      = 1 << 5
	deleteHorizonBt = 1 << 6
)

// NoTimestamp is the timestamp of a record that has none.
const NoTimestamp = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a decoded batch header. Its field Records has the records as stored, compressed or not,
// and aliases the bytes that were parsed.
type Batch struct{ kmsg.RecordBatch }

// Codec returns the compression codec of the records.
func (b *Batch) Codec() Codec { return Codec(b.Attributes & codecMask) }

// LogAppendTime reports whether the max timestamp of the batch, which the broker has set, is the
// timestamp of every record.
func (b *Batch) LogAppendTime() bool { return b.Attributes&logAppendBit != 0 }

// Transactional reports whether the batch is part of a transaction.
func (b *Batch) Transactional() bool { return b.Attributes&transactionBit != 0 }

// Control reports whether the batch holds a transaction marker instead of data.
func (b *Batch) Control() bool { return b.Attributes&controlBit != 0 }

// DeleteHorizon returns the time from which compaction may remove tombstones of the batch, in
// milliseconds since 1970, and whether compaction has set one.
func (b *Batch) DeleteHorizon() (int64, bool) {
	return b.FirstTimestamp, b.Attributes&deleteHorizonBt != 0
}

// Offsets returns the number of offsets of the batch. After compaction it may have fewer records.
func (b *Batch) Offsets() uint32 { return uint32(b.LastOffsetDelta) + 1 }

// Parse decodes the header of data, which must be exactly one batch. It checks magic, lengths and
// counts, but neither the CRC nor the records. Its errors are [*Error], of reason Corrupt,
// OldFormat or BadRecord.
func Parse(data []byte) (Batch, error) {
	var b Batch
	if len(data) < HeaderSize {
		return b, errorf(Corrupt, "%d bytes are no record batch: its header alone has %d", len(data), HeaderSize)
	}
	if m := data[atMagic]; m != 2 {
		return b, errorf(OldFormat, "magic %d: only record batches of magic 2 are supported (Kafka 0.11 and later)", m)
	}
	length := int64(int32(binary.BigEndian.Uint32(data[atLength:])))
	switch want := int64(len(data) - lengthPrefix); {
	case length > want:
		return b, errorf(Corrupt, "the batch says it has %d bytes after its length, but %d are there", length, want)
	case length < HeaderSize-lengthPrefix:
		return b, errorf(Corrupt, "the batch says it has %d bytes after its length: its header alone has %d", length, HeaderSize-lengthPrefix)
	case length < want:
		return b, errorf(BadRecord, "%d bytes follow the batch: give one batch at a time", want-length)
	}
	if err := b.ReadFrom(data); err != nil {
		return b, errorf(Corrupt, "the header cannot be read: %v", err)
	}
	switch {
	case b.LastOffsetDelta < 0 || b.LastOffsetDelta >= MaxRecords:
		return b, errorf(BadRecord, "last offset delta %d: want 0 to %d", b.LastOffsetDelta, MaxRecords-1)
	case b.NumRecords < 0 || b.NumRecords > b.LastOffsetDelta+1:
		return b, errorf(BadRecord, "%d records in %d offsets", b.NumRecords, b.LastOffsetDelta+1)
	}
	return b, nil
}

// Checksum returns the right CRC-32C for the batch data, which must have at least [HeaderSize]
// bytes.
func Checksum(data []byte) uint32 { return crc32.Checksum(data[atAttributes:], castagnoli) }

// Intact reports whether the batch data has the right CRC-32C.
func Intact(data []byte) bool {
	return len(data) >= HeaderSize && binary.BigEndian.Uint32(data[atCRC:]) == Checksum(data)
}

// Place writes the base offset and the partition leader epoch into the batch data, in place. The
// CRC does not cover them. data must have at least [HeaderSize] bytes.
func Place(data []byte, baseOffset int64, leaderEpoch int32) {
	_ = data[HeaderSize-1]
	binary.BigEndian.PutUint64(data[atBaseOffset:], uint64(baseOffset))
	binary.BigEndian.PutUint32(data[atLeaderEpoch:], uint32(leaderEpoch))
}

// Stamp sets log append time on the batch data, in place: every record then has the timestamp ms,
// in milliseconds since 1970. It also writes the new CRC. data must have at least [HeaderSize]
// bytes.
func Stamp(data []byte, ms int64) {
	_ = data[HeaderSize-1]
	a := binary.BigEndian.Uint16(data[atAttributes:])
	binary.BigEndian.PutUint16(data[atAttributes:], a|logAppendBit)
	binary.BigEndian.PutUint64(data[atMaxTimestamp:], uint64(ms))
	seal(data)
}

// seal writes the CRC.
func seal(data []byte) { binary.BigEndian.PutUint32(data[atCRC:], Checksum(data)) }

// Reason is why a batch is refused. Each one corresponds to an error code of the Kafka protocol.
type Reason uint8

// The reasons.
const (
	Corrupt      Reason = iota // wrong lengths or checksum, or not decodable (CORRUPT_MESSAGE)
	OldFormat                  // not magic 2 (UNSUPPORTED_FOR_MESSAGE_FORMAT)
	TooLarge                   // larger than allowed (MESSAGE_TOO_LARGE)
	UnknownCodec               // an undefined compression codec (UNSUPPORTED_COMPRESSION_TYPE)
	BadTimestamp               // a timestamp that is not allowed (INVALID_TIMESTAMP)
	BadRecord                  // anything else that may not be stored (INVALID_RECORD)
)

var reasonNames = [...]string{"corrupt", "old format", "too large", "unknown codec", "bad timestamp", "bad record"}

// String returns the reason's name in lower case.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown reason"
}

// Error is the error of a batch that is refused.
type Error struct {
	Reason Reason
	Err    error
}

// Error returns the reason and the detail.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }

// Unwrap returns the detail.
func (e *Error) Unwrap() error { return e.Err }

func errorf(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Err: fmt.Errorf(format, args...)}
}
