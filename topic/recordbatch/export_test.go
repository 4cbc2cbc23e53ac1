package recordbatch

// Compress and Decompress are tested with other limits than [MaxUncompressed].
var Compress = compress

// Decompress is decompress without a function that limits memory.
func Decompress(dst, src []byte, c Codec, limit int) ([]byte, error) {
	return decompress(dst, src, c, limit, nil)
}
