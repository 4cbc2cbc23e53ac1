package recordbatch

// Compress and Decompress are tested with other limits than [MaxUncompressed].
var (
	Compress   = compress
	Decompress = decompress
)
