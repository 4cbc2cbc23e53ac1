package frames

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// samples are frames of all kinds, with the bytes that they are on the wire.
var samples = []struct {
	name  string
	frame any
	bytes string
}{
	{"message", Message{To: Target{ID: 300}, Value: Value{Type: 5, Data: []byte{1, 2}}}, "01 ac02 05 0102"},
	{"message by name", Message{To: Target{Name: "ab"}, Value: Value{}}, "81 026162 00"},
	{"urgent", Message{To: Target{ID: 1}, Priority: 2, Value: Value{Type: 4, Data: []byte{9}}}, "21 01 00 02 04 09"},
	{"question", Message{To: Target{ID: 1}, Question: 7, Asker: "c", Start: 3, TTL: 1000, Trace: []byte("t"), Value: Value{Type: 4}}, "21 01 0f 00 07 0163 03 e807 0174 04"},
	{"answer", Answer{Question: 7, Value: Value{Type: 2, Data: []byte("x")}}, "02 07 02 78"},
	{"failed answer", Answer{Question: 7, Failed: true, Value: Value{Data: []byte("x")}}, "22 07 78"},
	{"monitor", Monitor{ID: 3, To: Target{ID: 4}}, "03 03 04"},
	{"demonitor", Demonitor{ID: 3}, "04 03"},
	{"down", Notice{Kind: KindDown, ID: 3, Reason: []byte("r")}, "05 03 72"},
	{"link", Link{ID: 1, From: 2, To: Target{Name: "n"}}, "86 01 02 016e"},
	{"unlink", Unlink{Kind: KindUnlink, ID: 1, Theirs: true}, "27 01"},
	{"exit", Unlink{Kind: KindExit, ID: 1, Reason: []byte("r")}, "08 01 72"},
	{"order", Control{To: Target{ID: 4}, Order: 2}, "09 04 02 00 00"},
	{"drain", Control{To: Target{ID: 4}, Order: 1, After: 9, Lanes: 64}, "09 04 01 09 40"},
	{"request", Request{ID: 1, TTL: 2, Op: OpSpawn, Name: "n", Messages: "m", Number: 3, Value: Value{Type: 4, Data: []byte("d")}}, "0a 01 02 02 016e 016d 03 04 64"},
	{"response", Response{ID: 1, Numbers: []uint64{1, 300}}, "0b 01 01 ac02"},
	{"failed response", Response{ID: 1, Failed: true, Error: []byte("e")}, "2b 01 65"},
	{"event", Event{Subscription: 1, Value: Value{Type: 2, Data: []byte("d")}}, "0c 01 02 64"},
	{"event end", Notice{Kind: KindEventEnd, ID: 3}, "0d 03"},
	{"group", Group{Name: "g", Value: Value{Type: 2, Data: []byte("d")}}, "0e 0167 02 64"},
	{"catalog", Catalog{Entries: []Entry{{Number: 1, Short: 4, Name: "int", Schema: "int64"}}}, "0f 01 01 04 03696e74 05696e743634"},
	{"verdict", TypeAck{Answers: []TypeAnswer{{Number: 1}, {Number: 2, Problem: "no"}}}, "10 02 01 00 02 026e6f"},
	{"mark", Mark{Number: 5}, "11 05"},
}

// appendFrame appends any frame.
func appendFrame(frame any) []byte {
	switch f := frame.(type) {
	case Message:
		return append(f.AppendHead(nil), f.Data...)
	case Answer:
		return append(f.AppendHead(nil), f.Data...)
	case Monitor:
		return f.Append(nil)
	case Demonitor:
		return f.Append(nil)
	case Notice:
		return append(f.AppendHead(nil), f.Reason...)
	case Link:
		return f.Append(nil)
	case Unlink:
		return append(f.AppendHead(nil), f.Reason...)
	case Control:
		return f.Append(nil)
	case Request:
		return append(f.AppendHead(nil), f.Data...)
	case Response:
		return append(f.AppendHead(nil), f.Error...)
	case Event:
		return append(f.AppendHead(nil), f.Data...)
	case Group:
		return append(f.AppendHead(nil), f.Data...)
	case Catalog:
		return f.Append(nil)
	case TypeAck:
		return f.Append(nil)
	case Mark:
		return f.Append(nil)
	}
	panic("no such frame")
}

// parseFrame parses a frame of any kind.
func parseFrame(b []byte) (frame any, err error) {
	switch k := KindOf(b); k {
	case KindMessage:
		frame, err = as(ParseMessage(b))
	case KindAnswer:
		frame, err = as(ParseAnswer(b))
	case KindMonitor:
		frame, err = as(ParseMonitor(b))
	case KindDemonitor:
		frame, err = as(ParseDemonitor(b))
	case KindDown, KindEventEnd:
		frame, err = as(ParseNotice(b, k))
	case KindLink:
		frame, err = as(ParseLink(b))
	case KindUnlink, KindExit:
		frame, err = as(ParseUnlink(b))
	case KindControl:
		frame, err = as(ParseControl(b))
	case KindRequest:
		frame, err = as(ParseRequest(b))
	case KindResponse:
		frame, err = as(ParseResponse(b))
	case KindEvent:
		frame, err = as(ParseEvent(b))
	case KindGroup:
		frame, err = as(ParseGroup(b))
	case KindCatalog:
		frame, err = as(ParseCatalog(b))
	case KindTypeAck:
		frame, err = as(ParseTypeAck(b))
	case KindMark:
		frame, err = as(ParseMark(b))
	default:
		err = ErrMalformed
	}
	return frame, err
}

func as[F any](f F, err error) (any, error) { return f, err }

func TestGoldenBytes(t *testing.T) {
	seen := map[Kind]bool{}
	for _, s := range samples {
		want, err := hex.DecodeString(strings.ReplaceAll(s.bytes, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		got := appendFrame(s.frame)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", s.name, got, want)
		}
		seen[KindOf(got)] = true
		back, err := parseFrame(got)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if again := appendFrame(back); !bytes.Equal(again, want) {
			t.Errorf("%s: became %x", s.name, again)
		}
		for n := range got {
			if _, err := parseFrame(got[:n]); err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d bytes: %v", s.name, n, err)
			}
		}
	}
	for k := KindMessage; k < kindEnd; k++ {
		if !seen[k] {
			t.Errorf("kind %d has no sample", k)
		}
	}
}

func TestMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "unknown kind": "1f", "no target": "01", "number 0": "01 00 05", "long number": "01 8000 05",
		"empty name": "81 00 05", "unknown flag": "41 01 05", "more of nothing": "21 01 00 00 04", "question 0": "21 01 01 00 00 04",
		"asker without question": "21 01 02 00 0163 03 04", "text too long": "81 ffff7f 61", "left over": "04 03 00",
		"unknown request": "0a 01 02 63 00 00 00 00", "catalog of too many": "0f ff7f 01", "type 0": "0f 01 00 00 0161 00",
		"too many lanes": "09 04 01 09 8110",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if f, err := parseFrame(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v: want ErrMalformed", name, f, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range samples {
		f.Add(appendFrame(s.frame))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := parseFrame(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v is not ErrMalformed", err)
			}
			return
		}
		if again := appendFrame(frame); !bytes.Equal(again, b) {
			t.Errorf("%x was read as %+v and became %x", b, frame, again)
		}
	})
}

func FuzzParseError(f *testing.F) {
	f.Add((&Error{Name: "a.b", Text: "text", Data: []byte{1}, Causes: []*Error{{Text: "cause"}, {Name: "c"}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseError(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v is not ErrMalformed", err)
			}
			return
		}
		again, err := ParseError(e.Append(nil))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

func TestErrorLimits(t *testing.T) {
	deep := &Error{}
	for range MaxErrorDepth {
		deep = &Error{Causes: []*Error{deep}}
	}
	wide := &Error{Causes: make([]*Error, MaxErrors)}
	for i := range wide.Causes {
		wide.Causes[i] = &Error{}
	}
	for name, e := range map[string]*Error{"deep": deep, "wide": wide} {
		if _, err := ParseError(e.Append(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
}
