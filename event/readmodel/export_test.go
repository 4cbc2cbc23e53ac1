package readmodel

// LikeForTest is like.
func LikeForTest(text, pattern string) bool { return like([]rune(text), []rune(pattern)) }
