package kafka_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/answertest"
)

// anyValue fills a value of a request with a random value, preferably with one that has a meaning.
func anyValue(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Float64:
		v.SetFloat(rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1)}).Draw(t, "float"))
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "t", "u", "a b", "g", "event.x", kafka.Plain, "consumer", "range", "uniform", "classic", "retention.ms", "cleanup.policy", "compact", "1", "\xff", ".*", "("}).Draw(t, "string"))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rapid.SampledFrom([]byte{0, 1}).Draw(t, "byte")))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			anyValue(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "n"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				anyValue(t, v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "UnknownTags" && name != "ReplicaState" && name != "ClusterID" {
				anyValue(t, v.Field(i))
			}
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	default:
		v.SetInt(rapid.SampledFrom([]int64{0, 1, -1, 2, 3, -2, 100, math.MaxInt8, math.MinInt8, math.MaxInt16, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}).Draw(t, "int"))
	}
}

// readAnswer reads the answer to a request and checks it.
func readAnswer(r io.Reader, req kmsg.Request) error {
	var head [8]byte // size and correlation ID
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("answer to %s version %d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return answertest.Check(resp)
}

// The server survives requests with random fields, and sends answers that clients can decode.
func TestAnyRequestIsServed(t0 *testing.T) {
	t := t0
	var panics testkit.Lines
	b := start(t, &kafka.Options{Logger: slog.New(slog.NewTextHandler(&panics, &slog.HandlerOptions{Level: slog.LevelError}))}, nil)
	b.topic(t, "t", 2)
	keys := ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 3).ApiKeys
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			k := rapid.SampledFrom(keys).Draw(t, "api")
			version := int16(rapid.IntRange(int(k.MinVersion), int(k.MaxVersion)).Draw(t, "version"))
			req := kmsg.RequestForKey(k.ApiKey)
			anyValue(t, reflect.ValueOf(req).Elem())
			c := b.raw(t0)
			c.send(req, version)
			p, silent := req.(*kmsg.ProduceRequest)
			if !unanswered[k.ApiKey] && !(silent && p.Acks == 0) {
				if err := readAnswer(c, req); err != nil && err != io.EOF && !strings.Contains(err.Error(), "reset") {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if text := panics.String(); strings.Contains(text, "panicked") {
				t.Fatalf("%s version %d: %s\n%+v", kmsg.NameForKey(k.ApiKey), version, text, req)
			}
		}
	})
	t.Log(panics.String())
}
