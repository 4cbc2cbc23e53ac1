package rpc_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/proto"
)

// The curl lines of the package comment.
func TestPlainHTTP(t *testing.T) {
	s := serve(t, nil, nil)
	a := s.json(t, "Commit", `{"ensures":[{"space":"kv/app/users"}],"writes":[{"space":"kv/app/users","key":"NDI=","value":"QWRh"}]}`)
	if a.status != http.StatusOK || !strings.Contains(string(a.body), `"first":"1"`) {
		t.Errorf("commit: %d %s", a.status, a.body)
	}
	a = s.json(t, "Get", `{"space":"kv/app/users","key":"NDI="}`)
	if a.status != http.StatusOK || !strings.Contains(string(a.body), `"value":"QWRh"`) {
		t.Errorf("get: %d %s", a.status, a.body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+service+"Head?connect=v1&encoding=json&message=%7B%7D", nil)
	if err != nil {
		t.Fatal(err)
	}
	a = s.do(t, http.DefaultTransport, r)
	if a.status != http.StatusOK || string(a.body) != `{"head":"1"}` {
		t.Errorf("head: %d %s", a.status, a.body)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Accel-Buffering") != "no" {
		t.Error("an answer may be cached, or kept by a proxy")
	}
	a = s.json(t, "Get", `{"space":"kv/app/users","key":"AAAA"}`)
	if a.status != http.StatusNotFound || a.code() != "not_found" || !strings.Contains(string(a.body), "kv/app/users") {
		t.Errorf("get nothing: %d %s", a.status, a.body)
	}
	a = s.json(t, "Commit", `{"conditions":[{"space":"kv/app/users","key":"NDI=","test":"TEST_ABSENT"}]}`)
	if a.status != http.StatusConflict || a.code() != "aborted" || !strings.Contains(string(a.body), "want absent, got version 1") {
		t.Errorf("conflict: %d %s", a.status, a.body)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	behind := model.New(nil)
	s := serve(t, behind, nil)
	for name, c := range map[string]struct {
		method, contentType, body string
		status                    int
		say                       string
	}{
		"not JSON":            {"Commit", "application/json", "hello", 400, "invalid_argument"},
		"empty JSON body":     {"Commit", "application/json", "", 400, "want a JSON object"},
		"JSON array":          {"Commit", "application/json", "[]", 400, "invalid_argument"},
		"JSON cut short":      {"Commit", "application/json", `{"writes":[{"space":"s"`, 400, "invalid_argument"},
		"misspelt field":      {"Commit", "application/json", `{"writes":[{"space":"s","key":"aw==","vaule":"aw=="}]}`, 400, "vaule"},
		"key is not base64":   {"Get", "application/json", `{"space":"s","key":"?"}`, 400, "invalid_argument"},
		"unknown enum name":   {"Commit", "application/json", `{"writes":[{"op":"OP_EAT"}]}`, 400, "OP_EAT"},
		"unknown enum number": {"Commit", "application/json", `{"writes":[{"op":256,"space":"s","key":"aw=="}]}`, 400, "operation 256"},
		"bad duration":        {"Commit", "application/json", `{"writes":[{"ttl":"1 day","space":"s","key":"aw=="}]}`, 400, "invalid_argument"},
		"number too large":    {"Scan", "application/connect+json", frame(0, `{"space":"s","limit":"99999999999999999999"}`), 200, "invalid_argument"},
		"empty key":           {"Commit", "application/json", `{"writes":[{"space":"s"}]}`, 400, "the key is empty"},
		"deep JSON":           {"Commit", "application/json", strings.Repeat(`{"writes":[`, 20_000), 400, "invalid_argument"},
		"not Protobuf":        {"Commit", "application/proto", "\xff\xff\xff", 400, "unmarshal"},
		"Protobuf cut short":  {"Commit", "application/proto", "\x2a\x7f\x0a", 400, "unmarshal"},
		"name is not UTF-8":   {"Get", "application/proto", "\x0a\x02\xff\xfe", 400, "UTF-8"},
		"no content type":     {"Commit", "", "{}", 415, ""},
		"form":                {"Commit", "application/x-www-form-urlencoded", "a=b", 415, ""},
		"unary as stream":     {"Commit", "application/connect+json", frame(0, "{}"), 415, ""},
		"stream as unary":     {"Scan", "application/json", "{}", 415, ""},
		"unknown method":      {"Fetch", "application/json", "{}", 404, ""},
		"frame cut short":     {"Scan", "application/connect+proto", "\x00\x00\x00\x00\x09abc", 200, "promised 9 bytes"},
		"frame header cut":    {"Scan", "application/connect+proto", "\x00\x00", 200, "incomplete envelope"},
		"no frame":            {"Scan", "application/connect+proto", "", 200, ""},
		"huge frame":          {"Scan", "application/connect+proto", "\x00\xff\xff\xff\xffabc", 200, "resource_exhausted"},
		"compressed frame":    {"Scan", "application/connect+proto", frame(1, "abc"), 200, "compress"},
		"two frames":          {"Scan", "application/connect+json", frame(0, "{}") + frame(0, "{}"), 200, "error"},
		"end frame":           {"Scan", "application/connect+json", frame(2, "{}"), 200, "error"},
	} {
		a := s.post(t, c.method, c.contentType, []byte(c.body))
		if a.status != c.status || !strings.Contains(string(a.body), c.say) {
			t.Errorf("%s: %d %s; want %d with %q", name, a.status, a.body, c.status, c.say)
		}
		if a.status == 200 && !strings.Contains(string(a.body), `"error"`) {
			t.Errorf("%s: the stream ended without an error: %q", name, a.body)
		}
	}
	if h, err := behind.Head(t.Context()); err != nil || h != 0 {
		t.Errorf("something was written: head %d, %v", h, err)
	}
	s.alive(t)
}

// frame puts a message of a stream into its envelope.
func frame(flags byte, message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message)))) + message
}

func TestMalformedGRPCIsRefused(t *testing.T) {
	s := serve(t, nil, nil)
	for name, body := range map[string]string{
		"nothing":         "",
		"header cut":      "\x00\x00\x00",
		"message cut":     "\x00\x00\x00\x00\x64abc",
		"huge":            "\x00\xff\xff\xff\xff",
		"not Protobuf":    frame(0, "\xff\xff"),
		"bad flags":       frame(0x40, ""),
		"compressed":      frame(1, "abc"),
		"two messages":    frame(0, "") + frame(0, ""),
		"a trailer, once": frame(0x80, "grpc-status: 0\r\n"),
	} {
		for _, method := range []string{"Commit", "Feed"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+service+method, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/grpc")
			a := s.do(t, http2(t), r)
			status := a.header.Get("Grpc-Status")
			if status == "" || status == "0" {
				t.Errorf("%s, %s: status %q, message %q", method, name, status, a.header.Get("Grpc-Message"))
			}
		}
	}
	s.alive(t)
}

func TestBytesThatAreNotHTTP(t *testing.T) {
	s := serve(t, nil, nil)
	for _, garbage := range []string{"\x00\x01\x02\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"} {
		c := s.dial(t)
		if _, err := io.WriteString(c, garbage); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Logf("%q: %v", garbage, err) // cut, one way or the other
		}
	}
	s.alive(t)
}

func TestSizesAreBounded(t *testing.T) {
	o := &rpc.Options{MaxCommit: 1 << 20, MaxRequest: 64 << 10, MaxParts: 1000}
	behind := model.New(nil)
	s := serve(t, behind, o)
	many := new(pb.CommitRequest)
	for range 40_000 {
		many.Writes = append(many.Writes, &pb.Write{})
	}
	tiny, err := proto.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	headers, err := proto.Marshal(&pb.CommitRequest{Writes: []*pb.Write{{Headers: make([]*pb.Header, 40_000)}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		method, contentType string
		body                []byte
		say                 string
	}{
		"commit":            {"Commit", "application/proto", make([]byte, o.MaxCommit+1), "larger than configured max 1048576"},
		"commit in JSON":    {"Commit", "application/json", bytes.Repeat([]byte(" "), o.MaxCommit+1), "larger than configured max"},
		"get":               {"Get", "application/proto", make([]byte, o.MaxRequest+1), "larger than configured max 65536"},
		"parts":             {"Commit", "application/proto", tiny, "more than 1000 writes"},
		"parts within":      {"Commit", "application/proto", headers, "more than 1000 writes"},
		"parts in JSON":     {"Commit", "application/json", []byte(`{"writes":[` + strings.Repeat("{},", 40_000) + `{}]}`), "more than 1000 writes"},
		"endless JSON":      {"Commit", "application/json", bytes.Repeat([]byte(`[`), 500_000), "invalid_argument"},
		"stream of a frame": {"Scan", "application/connect+proto", []byte(frame(0, strings.Repeat("x", o.MaxRequest+1))), "larger than configured max"},
	} {
		if a := s.post(t, c.method, c.contentType, c.body); !strings.Contains(string(a.body), c.say) {
			t.Errorf("%s: %d %.300s; want %q", name, a.status, a.body, c.say)
		}
	}
	s.alive(t)
}

func TestCompressionIsRefusedUnlessAsked(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, `{}`)
	_ = w.Close()
	var bomb bytes.Buffer
	w = gzip.NewWriter(&bomb)
	_, _ = w.Write(make([]byte, 10<<20))
	_ = w.Close()

	s := serve(t, nil, nil)
	if a := s.post(t, "Head", "application/json", zipped.Bytes(), "Content-Encoding", "gzip"); a.code() != "unimplemented" {
		t.Errorf("without: %d %s", a.status, a.body)
	}
	s = serve(t, nil, &rpc.Options{Compression: true, MaxRequest: 1 << 20})
	if a := s.post(t, "Head", "application/json", zipped.Bytes(), "Content-Encoding", "gzip"); a.status != http.StatusOK {
		t.Errorf("with: %d %s", a.status, a.body)
	}
	if a := s.post(t, "Head", "application/json", bomb.Bytes(), "Content-Encoding", "gzip"); a.code() != "resource_exhausted" {
		t.Errorf("a small request that is large: %d %s", a.status, a.body)
	}
	if a := s.post(t, "Head", "application/json", []byte("not gzip"), "Content-Encoding", "gzip"); a.status == http.StatusOK {
		t.Errorf("not gzip: %d %s", a.status, a.body)
	}
}

func TestErrorsCarryTheirDetail(t *testing.T) {
	s := serve(t, nil, nil)
	a := s.json(t, "DropSpace", `{"name":"nowhere"}`)
	for _, want := range []string{`"code":"not_found"`, `"type":"mainstem.v1.ErrorDetail"`, `"kind":"KIND_NOT_FOUND"`, `"outcome":"OUTCOME_NOT_WRITTEN"`, `"space":"nowhere"`} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("%s is not in %s", want, a.body)
		}
	}
}

func TestTimeoutsOfClientsAreHonoured(t *testing.T) {
	behind := model.New(nil)
	commit(t, behind, "k", nil)
	s := serve(t, behind, nil)
	a := s.post(t, "Feed", "application/connect+json", []byte(frame(0, `{"follow":true}`)), "Connect-Timeout-Ms", "50")
	if !strings.Contains(string(a.body), `"code":"deadline_exceeded"`) {
		t.Errorf("a feed for 50ms ends with %q", a.body)
	}
	for _, timeout := range []string{"x", "-1", "99999999999999999999"} {
		if a := s.post(t, "Head", "application/json", []byte("{}"), "Connect-Timeout-Ms", timeout); a.code() != "invalid_argument" {
			t.Errorf("timeout %q: %d %s", timeout, a.status, a.body)
		}
	}
}

func TestFollowersLearnThatTheyAreServed(t *testing.T) {
	behind := model.New(nil)
	commit(t, behind, "k", nil)
	s := serve(t, behind, nil)
	for method, request := range map[string]string{"Feed": `{"follow":true,"after":"1"}`, "Read": `{"space":"s","key":"eA==","follow":true}`} {
		const want = `{"following":{"head":"1"`
		got := make([]byte, len(want))
		if _, err := io.ReadFull(s.stream(t, http.DefaultTransport, method, request).Body, got); err != nil || string(got) != want {
			t.Errorf("%s begins with %q, %v", method, got, err)
		}
	}
}

func TestEveryMethodTakesTheEmptyRequest(t *testing.T) {
	s := serve(t, nil, nil)
	methods := pb.File_mainstem_v1_log_proto.Services().ByName("LogService").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		contentType, body := "application/json", "{}"
		if m.IsStreamingServer() {
			contentType, body = "application/connect+json", frame(0, "{}")
		}
		a := s.post(t, string(m.Name()), contentType, []byte(body))
		if a.status == http.StatusNotFound && a.code() == "" || a.status == http.StatusInternalServerError {
			t.Errorf("%s: %d %s", m.Name(), a.status, a.body)
		}
	}
	if methods.Len() != 18 {
		t.Errorf("%d methods", methods.Len())
	}
}

// What is called a limit of the contract is one here, with the error of the contract.
func TestBatchOverTheLogsLimit(t *testing.T) {
	behind := model.New(&model.Options{Limits: mainstem.Limits{MaxValue: 10}})
	s := serve(t, behind, &rpc.Options{Limits: mainstem.Limits{MaxValue: 10}})
	a := s.json(t, "Commit", fmt.Sprintf(`{"ensures":[{"space":"s"}],"writes":[{"space":"s","key":"aw==","value":%q}]}`, "AAAAAAAAAAAAAAAAAAAA"))
	if a.code() != "invalid_argument" || !strings.Contains(string(a.body), "the limit is 10") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
