package rowjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c\n\r\t\x00\x1f", "ü€😀", "\xff\xfe", "x\xc3", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := AppendString([]byte("x"), s)
		var got string
		if err := json.Unmarshal(p[1:], &got); err != nil || got != strings.ToValidUTF8(s, "\uFFFD") && got != string([]rune(s)) {
			t.Fatalf("%q became %s, %v", s, p, err)
		}
	})
}
