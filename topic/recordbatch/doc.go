// Package recordbatch reads, checks, builds and rewrites Kafka record batches
// of format version 2 (magic 2), the unit in which Kafka clients send and
// receive records and in which package topic stores them.
//
// # Words
//
// A [Batch] is a decoded batch header. A [Record] is one record. A [Builder]
// makes a batch, a [Decoder] yields the records of one, [Verify] decides
// whether bytes that came from outside are a batch that may be stored.
//
// # Layout
//
//	offset  bytes  field
//	     0      8  base offset           } outside the CRC, written by the broker:
//	    12      4  partition leader epoch } see [Place]
//	     8      4  length: bytes after this field
//	    16      1  magic = 2
//	    17      4  CRC-32C of everything from byte 21
//	    21      2  attributes: bits 0-2 codec, 3 log append time, 4 transactional,
//	               5 control, 6 base timestamp is a delete horizon
//	    23      4  last offset delta
//	    27      8  base timestamp   (milliseconds since 1970)
//	    35      8  max timestamp
//	    43      8  producer id      (-1: none)
//	    51      2  producer epoch
//	    53      4  base sequence
//	    57      4  number of records
//	    61      …  the records, compressed together if the codec is not 0
//
// A record is a varint length, then attributes (1 byte), timestamp delta
// (varlong), offset delta (varint), key and value (varint length, -1 for null),
// and a varint number of headers, each a key and a nullable value.
//
// # Guarantees
//
// Nothing here panics or allocates without bound on any input: a batch is
// decompressed to at most [MaxUncompressed] bytes, and a declared number of records
// costs nothing until they are there. Null and empty keys and values stay distinct.
//
// # Concurrency and ownership
//
// Functions are pure and may be called from many goroutines. A Builder or
// Decoder belongs to one goroutine. Decoded records alias the batch or the
// Decoder's buffer and are lent until the loop body returns.
//
// # Limits
//
// [MaxRecords] records in a batch, [MaxUncompressed] bytes of records after
// decompression.
//
// # Testing
//
// The tests build batches with franz-go's encoders and read ours with its
// consumer code, so that both ends of the format are somebody else's; golden
// bytes fix what is written; Verify and Decoder are fuzzed.
package recordbatch
