package natskv

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// Every key comes back from its token, and no token has two keys.
func FuzzToken(f *testing.F) {
	for _, s := range []string{"test-key", "ORSXG5BNNNSXS===", "ORSXG5BNNNSXT===", "a.b", "\x00", "ü", "NNSXSLJQ", "=", "MY======"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" {
			t.Skip()
		}
		for _, l := range []Layout{NATS(), Shared(true)} {
			if token, err := l.token(s); err == nil {
				if back, ok := l.full(token); !ok || back != s {
					t.Errorf("%s: key %q is token %q is key %q, %v", l, s, token, back, ok)
				}
				if at := badKeyByte(token); at >= 0 || strings.Contains(token, "..") {
					t.Errorf("%s: token %q is no key of NATS", l, token)
				}
			}
			if full, ok := l.full(s); ok {
				if token, err := l.token(full); err == nil && token != s {
					t.Errorf("%s: token %q is key %q is token %q", l, s, full, token)
				}
			}
		}
	})
}

// theirs is the envelope as encoding/json has it in go-orb and go-micro.
type theirs struct {
	Key      string         `json:"key"`
	Data     []byte         `json:"data"`
	Metadata map[string]any `json:"metadata"`
}

// What append writes is what encoding/json writes.
func FuzzEnvelopeAppend(f *testing.F) {
	f.Add("test-key", []byte("test-value"), "")
	f.Add("<a>&\"\\ü\xff\u2028", []byte{}, "by")
	f.Fuzz(func(t *testing.T, key string, data []byte, name string) {
		e := Envelope{Key: key, Data: data}
		var m map[string]any
		if name != "" {
			m = map[string]any{name: "<&>", "n": 1.5}
			e.Metadata, _ = json.Marshal(m)
		}
		got, err := e.append([]byte("x"), formMicro)
		want, err2 := json.Marshal(theirs{key, data, m})
		if err != nil || err2 != nil || string(got) != "x"+string(want) {
			t.Fatalf("append %s, %v; want %s, %v", got, err, want, err2)
		}
		var back Envelope
		if err := back.parse(want); err != nil || !bytes.Equal(back.Data, data) || (back.Data == nil) != (data == nil) {
			t.Fatalf("parse %s = %+v, %v", want, back, err)
		}
	})
}

// What parse reads is what encoding/json reads, and it refuses the same.
func FuzzEnvelopeParse(f *testing.F) {
	for _, s := range []string{
		`{"key":"test-key","data":"dGVzdC12YWx1ZQ==","metadata":{}}`, `{"key":"k","data":null,"metadata":null}`,
		`{"key":"k","data":"","metadata":{"a":1}}`, `{"data":"AA==","key":"k"}`, `{"key":"k","data":"AA","metadata":null}`,
		`{"key":"k","data":"AA==","metadata":null,"data":"AQ=="}`, `{"key":"k","data":"A\u0041==","metadata":null}`, `null`, ``, ` {}`,
		`{"key":"k","data":"AA==","metadata":null}}`, "{\"key\":\"k\",\"data\":\"AA\n==\",\"metadata\":null}", `{"key":"k","data":[1,2],"metadata":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var e Envelope
		err := e.parse(src)
		var want struct {
			Key      string          `json:"key"`
			Data     []byte          `json:"data"`
			Metadata json.RawMessage `json:"metadata"`
		}
		wantErr := json.Unmarshal(src, &want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("parse %q: %v; encoding/json: %v", src, err, wantErr)
		}
		if err != nil {
			return
		}
		if e.Key != want.Key || !bytes.Equal(e.Data, want.Data) || (e.Data == nil) != (want.Data == nil) || !bytes.Equal(e.Metadata, meaningful(want.Metadata)) {
			t.Fatalf("parse %q = %+v; encoding/json %+v", src, e, want)
		}
		e.metadata()
	})
}

// The fast reader of acknowledgements takes nothing that encoding/json reads otherwise.
func FuzzAck(f *testing.F) {
	for _, s := range []string{
		`{"stream":"KV_b","seq":7}`, `{"stream":"KV_b","seq":7,"duplicate":true}`, `{"error":{"code":400,"err_code":10071,"description":"x"},"seq":0}`,
		`{"stream":"KV_b","seq":07}`, `{"stream":"KV_b","seq":}`, `{"stream":"a\"","seq":1}`, `{"stream":"KV_b","seq":18446744073709551615}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		seq, ok := fastAck(data)
		if !ok {
			_, _ = parseAck(data)
			return
		}
		var a ack
		if err := json.Unmarshal(data, &a); err == nil && (a.Seq != seq || a.Error != nil) {
			t.Fatalf("%q is %d; encoding/json says %+v", data, seq, a)
		}
	})
}

// No answer of a server, or of somebody else, makes the decoders fall over.
func FuzzAnswers(f *testing.F) {
	f.Add("$JS.ACK.KV_b.c.1.10.7.1700000000000000000.3", []byte(`{"message":{"seq":1,"hdrs":"TkFUUy8xLjANCg0K"}}`), "5", "2026-01-01T00:00:00Z", "3s")
	f.Add("$JS.ACK._.h.KV_b.c.1.10.7.1700000000000000000.3.x", []byte(`{"error":{"err_code":10037}}`), "x", "", "never")
	f.Fuzz(func(t *testing.T, reply string, stored []byte, seq, at, ttl string) {
		if d, ok := parseDelivery(reply); ok && strings.Count(reply, ".") < 8 {
			t.Errorf("%q is read as %+v", reply, d)
		}
		if m, err := parseStored(stored); err == nil {
			_ = operation(m.header)
		}
		h := nats.Header{headerSequence: {seq}, headerTime: {at}, headerTTL: {ttl}}
		_, _ = parseDirect(&nats.Msg{Header: h})
		if d := ttlOf(h); d < forEver {
			t.Errorf("TTL %q is %v", ttl, d)
		}
	})
}

func TestDeliveryReply(t *testing.T) {
	want := delivery{seq: 10, number: 7, time: 1700000000000000000, pending: 3}
	for _, reply := range []string{
		"$JS.ACK.KV_b.c.1.10.7.1700000000000000000.3",
		"$JS.ACK._.hash.KV_b.c.1.10.7.1700000000000000000.3",
		"$JS.ACK.hub.hash.KV_b.c.1.10.7.1700000000000000000.3.random",
	} {
		if d, ok := parseDelivery(reply); !ok || d != want {
			t.Errorf("%s is %+v, %v", reply, d, ok)
		}
	}
}

// A large envelope is read without encoding/json.
func TestEnvelopeFastPath(t *testing.T) {
	data := bytes.Repeat([]byte{1, 2, 3}, 1000)
	src := `{"key":"k","data":"` + base64.StdEncoding.EncodeToString(data) + `","metadata":{}}`
	var e Envelope
	if !e.parseFast([]byte(src)) || !bytes.Equal(e.Data, data) || e.Key != "k" || e.Metadata != nil {
		t.Errorf("%+v", e)
	}
}
