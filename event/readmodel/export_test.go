package readmodel

// LikeForTest is like.
func LikeForTest(text, pattern string) bool { return like([]rune(text), []rune(pattern)) }

// IndexNameForTest is indexName.
func IndexNameForTest(fields ...string) string { return indexName(fields) }
