package viewhttp

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDecoders: whatever clients send is refused or understood, and means the same when it is
// written again.
func FuzzDecoders(f *testing.F) {
	for _, seed := range []string{"1-2-3", "1-0-17-2", "0:17,1:4", `"12"`, `[{"type":"a","data":1}]`, `{"do":[{"kv.put":{"table":"a/b","key":"k","text":"v"}}]}`, "", "-", "18446744073709551615-1-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if offsets, err := parseOffsetsID(text); err == nil {
			again, err := parseOffsetsID(offsetsID(offsets))
			if err != nil || offsetsID(again) != offsetsID(offsets) {
				t.Errorf("%q: %v becomes %v, %v", text, offsets, again, err)
			}
		}
		if token, err := parseRecordToken(text); err == nil {
			if again, err := parseRecordToken(token.String()); err != nil || again != token {
				t.Errorf("%q: %v becomes %v, %v", text, token, again, err)
			}
		}
		var p position
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			data, err := json.Marshal(p)
			if err != nil || !strings.Contains(string(data), `"`) {
				t.Errorf("%q: %s, %v", text, data, err)
			}
		}
		list, err := decodeList[newEvent]([]byte(text), 3)
		if err == nil && len(list) > 3 {
			t.Errorf("%q: %d elements", text, len(list))
		}
		var q commitRequest
		if decodeJSON([]byte(text), &q) == nil {
			actions, _ := optionalList[commitAction](q.Do, 10)
			for i := range actions {
				_, _ = actions[i].one() // it only must not panic
			}
		}
	})
}
