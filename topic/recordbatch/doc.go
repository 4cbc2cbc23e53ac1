// Package recordbatch reads, checks, builds and rewrites Kafka record batches of format version 2
// (magic 2), the unit in which Kafka clients send and receive records and in which package topic
// stores them.
//
// # Words
//
// A [Batch] is a decoded batch header. A [Record] is one record. [Parse] decodes a header. [Verify]
// checks whether bytes from a client are a batch that may be stored. A [Builder] makes a batch, a
// [Decoder] yields the records of one, a [Rewriter] removes records from one. A [Marker] is the
// batch that ends a transaction. The example of the package builds, checks and reads a batch.
//
// # Layout
//
//	offset  bytes  field
//	     0      8  base offset             } not covered by the CRC, written by the
//	    12      4  partition leader epoch  } broker: see [Place]
//	     8      4  length: bytes after this field
//	    16      1  magic = 2
//	    17      4  CRC-32C of everything from byte 21
//	    21      2  attributes: bits 0-2 codec, 3 log append time, 4 transactional,
//	               5 control, 6 base timestamp is a delete horizon
//	    23      4  last offset delta
//	    27      8  base timestamp   (milliseconds since 1970)
//	    35      8  max timestamp
//	    43      8  producer ID      (-1: none)
//	    51      2  producer epoch
//	    53      4  base sequence
//	    57      4  number of records
//	    61      …  the records, compressed together if the codec is not 0
//
// Numbers are big-endian. A record is a varint length, then attributes (1 byte), timestamp delta
// (varlong), offset delta (varint), key and value (each a varint length, -1 for null, and bytes),
// and a varint number of headers, each a key and a nullable value.
//
// # Guarantees
//
// For any input, [Parse], [Verify], Decoder and Rewriter neither panic nor allocate without bound:
// a batch is decompressed to at most [MaxUncompressed] bytes, a declared number of records costs no
// memory before the records are found, and Room of a Decoder counts the headers of a record. Null
// and empty keys and values stay distinct. Bytes are not written to, but by [Place] and [Stamp].
//
// # Concurrency and ownership
//
// Functions may be called from many goroutines. A Builder, Decoder or Rewriter belongs to one
// goroutine. Decoded records alias the batch or the Decoder's buffer and are lent until the loop
// body returns.
//
// # Limits
//
// A batch has at most [MaxRecords] offsets, and [MaxUncompressed] bytes of records after
// decompression. Verify refuses a record with more than [MaxHeaders] headers. Batches of magic 0
// and 1, before Kafka 0.11, are not supported.
//
// # Testing
//
// The tests read the batches of franz-go's encoders, and have franz-go's consumer code read those
// that are built here. Golden bytes fix the format that is written. Verify and Decoder are fuzzed.
package recordbatch
