package bounds

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzRequest decodes the bodies that Check accepts, of any API and version: decoding never
// panics and costs at most the memory that Check returned.
func FuzzRequest(f *testing.F) {
	const limit = 16 << 20
	requests(func(key, version int16, fresh func() kmsg.Request) {
		f.Add(key, version, fresh().AppendTo(nil))
		f.Add(key, version, []byte{0, 1, 'a', 0, 0, 0, 1, 0, 1, 'b', 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1})
	})
	f.Add(int16(kmsg.Fetch), int16(15), append(make([]byte, 4+4+1+4+4+1+1+1), 1, 1, 17, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if key < 0 || key > kmsg.MaxKey || kmsg.RequestForKey(key) == nil || version < 0 || version > kmsg.RequestForKey(key).MaxVersion() {
			return
		}
		cost, _, err := Check(key, version, body, limit)
		if err != nil {
			return
		}
		if cost > limit {
			t.Fatalf("a cost of %d passes the limit of %d", cost, limit)
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if spent := allocated(func() { _ = req.ReadFrom(body) }); spent > cost+overhead(cost)+len(body) {
			t.Errorf("%s version %d: decoding %d bytes took %d, not %d", kmsg.NameForKey(key), version, len(body), spent, cost)
		}
	})
}
