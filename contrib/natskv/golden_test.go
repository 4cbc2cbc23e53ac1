package natskv_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

// golden is what a layout stores: as the other systems' own stores were seen to.
type golden struct {
	layout          natskv.Layout
	database, table string
	bare            bool
	key             string
	subject         string
	body            string
}

func goldens(t testing.TB) []golden {
	const value = "test-value"
	orbDefault := orb(t, natskv.OrbDefaults())
	orbPlain := orb(t, natskv.OrbOptions{BucketPerTable: true})
	orbJSON := orb(t, natskv.OrbOptions{BucketPerTable: true, JSONKeyValues: true, KeyEncoding: "base32"})
	orbOne := orb(t, natskv.OrbOptions{KeyEncoding: "base32"})
	orbCompat := orb(t, natskv.OrbOptions{JSONKeyValues: true, KeyEncoding: "base32"})
	orbCompatPlain := orb(t, natskv.OrbOptions{JSONKeyValues: true})
	orbBody := `{"key":"test-key","data":"dGVzdC12YWx1ZQ==","metadata":{}}`
	microBody := `{"key":"test-key","data":"dGVzdC12YWx1ZQ==","metadata":null}`
	micro := func(key string) string { return strings.Replace(microBody, "test-key", key, 1) }
	return []golden{
		{layout: natskv.NATS(), table: "config", key: "test-key", subject: "$KV.config.test-key", body: value},
		{layout: natskv.NATS(), database: "app", table: "config", key: "a.b/c=d_e", subject: "$KV.app_config.a.b/c=d_e", body: value},
		{layout: natskv.NATS(), database: "app", key: "x", subject: "$KV.app.x", body: value},

		{layout: orbDefault, key: "test-key", subject: "$KV.default.ORSXG5BNNNSXS===", body: value},
		{layout: orbDefault, key: "key-0", subject: "$KV.default.NNSXSLJQ", body: value},
		{layout: orbDefault, key: "One", subject: "$KV.default.J5XGK===", body: value},
		{layout: orbDefault, table: "table-1", key: "test-key", subject: "$KV.default_table-1.ORQWE3DFFUYV65DFON2C223FPE======", body: value},
		{layout: orbDefault, table: "table-1", bare: true, key: "test-key", subject: "$KV.default_table-1.ORSXG5BNNNSXS===", body: value},
		{layout: orbPlain, table: "t", key: "k", subject: "$KV.default_t.t_k", body: value},
		{layout: orbPlain, key: "k", subject: "$KV.default.k", body: value},
		{layout: orbJSON, table: "table-1", key: "test-key", subject: "$KV.default_table-1.ORQWE3DFFUYV65DFON2C223FPE======", body: orbBody},
		{layout: orbOne, table: "ignored", key: "test-key", subject: "$KV.default.ORSXG5BNNNSXS===", body: value},
		{layout: orbCompat, key: "test-key", subject: "$KV.default.ORSXG5BNNNSXS===", body: orbBody},
		{layout: orbCompatPlain, table: "ignored", key: "test-key", subject: "$KV.default.test-key", body: orbBody},

		{layout: natskv.GoMicro(true), key: "test-key", subject: "$KV.default.ORSXG5BNNNSXS===", body: microBody},
		{layout: natskv.GoMicro(true), table: "prefix_test", key: "Two", subject: "$KV.default.OBZGKZTJPBPXIZLTORPVI53P", body: micro("Two")},
		{layout: natskv.GoMicro(false), table: "prefix_test", key: "Two", subject: "$KV.default.prefix_test_Two", body: micro("Two")},
		{layout: natskv.GoMicro(false), database: "other", key: "Two", subject: "$KV.other.Two", body: micro("Two")},
		{layout: natskv.Shared(true), table: "prefix_test", key: "Two", subject: "$KV.default.OBZGKZTJPBPXIZLTORPVI53P", body: micro("Two")},
		{layout: natskv.Shared(false), table: "t", key: "test-key", subject: "$KV.default.t_test-key", body: microBody},
	}
}

// What is written is byte for byte what the other systems write, and what they
// write is read.
func TestGoldenLayouts(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	for _, g := range goldens(t) {
		t.Run(fmt.Sprintf("%s/%s/%s/%s", g.layout, g.database, g.table, g.key), func(t *testing.T) {
			s := open(t, srv.URL(), &natskv.Options{Layout: g.layout})
			b := must[*natskv.Bucket[string]](t)(natskv.OpenTable[string](s, g.database, g.table, &natskv.TableOptions{Bare: g.bare}))
			if got := must[string](t)(b.Subject(g.key)); got != g.subject {
				t.Fatalf("subject %s; want %s", got, g.subject)
			}
			must[kv.Revision](t)(b.Put(t.Context(), g.key, "test-value"))
			m := stored(t, srv.URL(), g.subject)
			if string(m.Data) != g.body || len(m.Header) > 0 {
				t.Errorf("body %s with headers %v; want %s and none", m.Data, m.Header, g.body)
			}
			publish(t, srv.URL(), &nats.Msg{Subject: g.subject, Data: []byte(strings.Replace(g.body, "dGVzdC12YWx1ZQ==", "b3RoZXI=", 1))})
			want := "other"
			if !strings.Contains(g.body, "{") {
				want = "test-value"
			}
			if e := must[kv.Entry[string]](t)(b.Get(t.Context(), g.key)); e.Value != want {
				t.Errorf("read %q; want %q", e.Value, want)
			}
			noError(t, js(t, srv.URL()).DeleteKeyValue(t.Context(), b.BucketName()))
		})
	}
}

// stored returns the newest message of a subject in a bucket.
func stored(t testing.TB, url, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	bucket := strings.Split(subject, ".")[1]
	st, err := js(t, url).Stream(t.Context(), "KV_"+bucket)
	noError(t, err)
	m := must[*jetstream.RawStreamMsg](t)(st.GetLastMsgForSubject(t.Context(), subject))
	for _, name := range []string{"Sequence", "Stream", "Subject", "Time-Stamp"} { // of the answer, not of the message
		m.Header.Del("Nats-" + name)
	}
	return m
}

// publish stores a message as another client would.
func publish(t testing.TB, url string, m *nats.Msg) uint64 {
	t.Helper()
	a, err := js(t, url).PublishMsg(t.Context(), m)
	noError(t, err)
	return a.Sequence
}

// A deletion and a purge are the markers of NATS.
func TestGoldenMarkers(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), nil), "b", nil)
	must[kv.Revision](t)(b.Put(t.Context(), "k", "v"))
	noError(t, b.Delete(t.Context(), "k"))
	if m := stored(t, srv.URL(), "$KV.b.k"); len(m.Data) != 0 || len(m.Header) != 1 || m.Header.Get("KV-Operation") != "DEL" {
		t.Errorf("deletion: %q %v", m.Data, m.Header)
	}
	noError(t, b.Purge(t.Context(), "k"))
	if m := stored(t, srv.URL(), "$KV.b.k"); len(m.Data) != 0 || len(m.Header) != 2 || m.Header.Get("KV-Operation") != "PURGE" || m.Header.Get("Nats-Rollup") != "sub" {
		t.Errorf("purge: %q %v", m.Data, m.Header)
	}
}

// A new bucket is configured as NATS clients configure theirs, but for what it
// allows besides.
func TestGoldenBucket(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), nil), "ours", &natskv.TableOptions{History: 5})
	must[kv.Revision](t)(b.Put(t.Context(), "k", "v"))
	j := js(t, srv.URL())
	must[jetstream.KeyValue](t)(j.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "theirs", History: 5}))
	config := func(name string) map[string]any {
		st := must[jetstream.Stream](t)(j.Stream(t.Context(), "KV_"+name))
		c := st.CachedInfo().Config
		c.Metadata = nil
		c.AllowMsgTTL, c.AllowAtomicPublish = false, false
		var m map[string]any
		noError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(must[[]byte](t)(json.Marshal(c))), name, "NAME")), &m))
		return m
	}
	if ours, theirs := fmt.Sprint(config("ours")), fmt.Sprint(config("theirs")); ours != theirs {
		t.Errorf("bucket\n%s\nwant\n%s", ours, theirs)
	}
}

func TestLayoutRefuses(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	_, err := natskv.GoOrb(natskv.OrbOptions{KeyEncoding: "base64"})
	wantError(t, err, errInvalid)
	for _, l := range layouts(t) {
		s := open(t, srv.URL(), &natskv.Options{Layout: l})
		for _, name := range []string{"a b/t", "a.b/t", strings.Repeat("x", 300) + "/t"} {
			_, err := natskv.Open[string](s, name, nil)
			wantError(t, err, errInvalid)
		}
		b := table[string](t, s, "app/t", nil)
		for _, key := range []string{"", strings.Repeat("k", 5000)} {
			_, err := b.Put(t.Context(), key, "v")
			wantError(t, err, errInvalid)
			_, err = b.Get(t.Context(), key)
			wantError(t, err, errInvalid)
		}
		for _, key := range []string{"with blank", "dot.", "a..b", "*", ">", "ü", "a\x00"} {
			_, err := b.Put(t.Context(), key, "v")
			if !strings.Contains(l.String(), "base32") {
				wantError(t, err, errInvalid)
			} else {
				noError(t, err)
				e, err := b.Get(t.Context(), key)
				noError(t, err)
				if e.Value != "v" {
					t.Errorf("%s: %q is %q", l, key, e.Value)
				}
			}
		}
	}
}
