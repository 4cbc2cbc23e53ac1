package osql

import "testing"

const insertText = `INSERT INTO  alerts . status  ( Agent ,  AlertGroup ,  AlertKey ,  ExtendedAttr ,  FirstOccurrence ,  Identifier ,  Manager ,  Node ,  NodeAlias ,  Severity ,  Summary ,  Type ,  URL ) VALUES ('a', 'b', 'c', 'd e f', 1700000000, 'id', 'm', 'n', '1.2.3.4', 4, 'a sentence', 1, 'http://x')`

func BenchmarkSplit(b *testing.B) {
	for b.Loop() {
		if _, err := Split(insertText, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		st, err := Split(insertText, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := st[0].parse(); err != nil {
			b.Fatal(err)
		}
	}
}
