package bounds

import (
	"encoding/binary"
	"reflect"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

const noLimit = 1 << 40

// requests calls f with an empty request of every kind and version.
func requests(f func(key, version int16, fresh func() kmsg.Request)) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.RequestForKey(key) == nil {
			continue
		}
		for version := int16(0); version <= kmsg.RequestForKey(key).MaxVersion(); version++ {
			f(key, version, func() kmsg.Request {
				req := kmsg.RequestForKey(key)
				req.SetVersion(version)
				return req
			})
		}
	}
}

// randomize fills a value with random data. Structures that are written as tags stay empty,
// because Check refuses them.
func randomize(t *rapid.T, v reflect.Value, sealed bool) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.String:
		v.SetString(rapid.StringN(0, 200, 300).Draw(t, "string"))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rapid.Byte().Draw(t, "byte")))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "null") {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		randomize(t, v.Elem(), sealed)
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "n"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				randomize(t, v.Index(i), sealed)
			}
		}
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			for i := range rapid.IntRange(0, 2).Draw(t, "tags") {
				tags.Set(uint32(100+i*100), rapid.SliceOfN(rapid.Byte(), 0, 150).Draw(t, "tag"))
			}
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			asTag := f.Name == "UnknownTags" || f.Type.Kind() == reflect.Struct || f.Type.Kind() == reflect.Pointer
			if f.Name == "Version" || sealed && asTag {
				continue
			}
			randomize(t, v.Field(i), sealed)
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	default:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	}
}

// Check walks to the last byte of every request that the encoder of package kmsg writes.
func TestEveryRequestIsWalkedToItsEnd(t *testing.T) {
	requests(func(key, version int16, fresh func() kmsg.Request) {
		l, err := layoutOf(key, version)
		if err != nil {
			t.Fatal(err)
		}
		if l.sealed && key != int16(kmsg.Fetch) {
			return // between brokers and controllers: their tags hold arrays
		}
		rapid.Check(t, func(t *rapid.T) {
			req := fresh()
			randomize(t, reflect.ValueOf(req).Elem(), l.sealed)
			body := req.AppendTo(nil)
			w := walk{src: body, limit: noLimit}
			w.layout(l)
			if w.err != nil || len(w.src) > 0 {
				t.Fatalf("%s version %d: %d of %d bytes are left: %v\n%+v\n%+v", kmsg.NameForKey(key), version, len(w.src), len(body), w.err, req, l)
			}
			spent := allocated(func() { _ = fresh().ReadFrom(body) })
			if spent > w.cost+overhead(w.cost) {
				t.Fatalf("%s version %d: decoding took %d bytes, not %d", kmsg.NameForKey(key), version, spent, w.cost)
			}
		})
	})
}

// overhead is the memory beyond the cost that Check returns: for size classes, the request, and
// the runtime.
func overhead(cost int) int { return cost/4 + 16<<10 }

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// lies are short bodies with large counts.
func TestLies(t *testing.T) {
	const claimed = 50_000_000
	count := binary.BigEndian.AppendUint32(nil, claimed)
	compact := binary.AppendUvarint(nil, claimed+1)
	padding := make([]byte, claimed)
	for _, tt := range []struct {
		name    string
		key     kmsg.Key
		version int16
		body    []byte
	}{
		{"array beyond the end", kmsg.Metadata, 1, count},
		{"compact array beyond the end", kmsg.Metadata, 9, compact},
		{"array of elements that are too short", kmsg.OffsetForLeaderEpoch, 2, append(count, padding...)},
		{"tags beyond the end", kmsg.ApiVersions, 3, append([]byte{1, 1}, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"tags within the tag of a replica", kmsg.Fetch, 15, append(make([]byte, 4+4+4+1+4+4+1+1+1), 1, 1, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"text beyond the end", kmsg.SASLHandshake, 0, []byte{0x7f, 0xff}},
		{"batch beyond the end", kmsg.Produce, 3, []byte{0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := Check(int16(tt.key), tt.version, tt.body, 64<<20); err == nil {
				t.Error("let through")
			}
		})
	}
}

func TestLimit(t *testing.T) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Topics = make([]kmsg.OffsetFetchRequestTopic, 100_000)
	body := req.AppendTo(nil)
	cost, elements, err := Check(int16(kmsg.OffsetFetch), 0, body, noLimit)
	if err != nil || cost < 4*len(body) || elements != len(req.Topics) {
		t.Fatalf("%d bytes cost %d, with %d elements: %v", len(body), cost, elements, err)
	}
	if _, _, err := Check(int16(kmsg.OffsetFetch), 0, body, cost-1); err == nil {
		t.Error("more than the limit is let through")
	}
	if _, _, err := Check(int16(kmsg.OffsetFetch), 0, body, cost); err != nil {
		t.Error(err)
	}
}

func TestUnknownRequests(t *testing.T) {
	for _, tt := range [][2]int16{{-1, 0}, {kmsg.MaxKey + 1, 0}, {0, -1}, {0, 1000}} {
		if _, _, err := Check(tt[0], tt[1], nil, noLimit); err == nil {
			t.Errorf("request %d, version %d has a layout", tt[0], tt[1])
		}
	}
}

func TestCheckTags(t *testing.T) {
	for _, tt := range []struct {
		src  []byte
		rest int // -1: an error
	}{
		{[]byte{0, 7}, 1},
		{[]byte{1, 5, 2, 1, 2, 7, 7}, 2},
		{[]byte{}, -1},
		{[]byte{1, 5}, -1},
		{[]byte{1, 5, 3, 1}, -1},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, -1},
	} {
		rest, err := CheckTags(tt.src)
		if (err != nil) != (tt.rest < 0) || err == nil && len(rest) != tt.rest {
			t.Errorf("%x: %d bytes are left, %v", tt.src, len(rest), err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = make([]byte, 1000)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = "topic", []kmsg.ProduceRequestTopicPartition{p}
	req.Topics = append(req.Topics, topic)
	body := req.AppendTo(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Check(0, 9, body, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
