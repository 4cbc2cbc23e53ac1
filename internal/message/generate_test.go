package message_test

import (
	"math"
	"time"

	"github.com/mainstemdev/mainstem"
	"pgregory.net/rapid"
)

// Generators of everything that may cross the wire, the odd ones included.

// optionalBytes draws nil, empty or some bytes.
var optionalBytes = rapid.OneOf(rapid.Just([]byte(nil)), rapid.Just([]byte{}), rapid.SliceOfN(rapid.Byte(), 1, 30))

// name draws text, valid as Protobuf wants it.
var name = rapid.StringN(0, 12, 40)

// rawName draws any bytes as a string.
var rawName = rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) })

var headers = rapid.Custom(func(t *rapid.T) mainstem.Headers {
	n := rapid.SampledFrom([]int{0, 0, 1, 2, 7}).Draw(t, "headers")
	var h mainstem.Headers
	for range n {
		h = append(h, mainstem.Header{Name: rapid.OneOf(name, rawName).Draw(t, "name"), Value: optionalBytes.Draw(t, "value")})
	}
	return h
})

var instant = rapid.OneOf(
	rapid.Just(time.Time{}),
	rapid.Map(rapid.Int64(), func(n int64) time.Time { return time.Unix(0, n).UTC() }),
	rapid.Just(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)),
)

var duration = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{0, 1, -1, time.Hour, math.MaxInt64, math.MinInt64}),
	rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }),
)

var record = rapid.Custom(func(t *rapid.T) mainstem.Record {
	return mainstem.Record{
		Space:     name.Draw(t, "space"),
		Key:       optionalKey.Draw(t, "key"),
		Version:   mainstem.Version(rapid.Uint64().Draw(t, "version")),
		Count:     rapid.Uint32Min(1).Draw(t, "count"),
		Position:  mainstem.Position(rapid.Uint64().Draw(t, "position")),
		Time:      instant.Draw(t, "time"),
		Expires:   instant.Draw(t, "expires"),
		Tombstone: mainstem.Tombstone(rapid.IntRange(0, int(mainstem.Expired)).Draw(t, "tombstone")),
		Headers:   headers.Draw(t, "headers"),
		Value:     optionalBytes.Draw(t, "value"),
	}
})

// optionalKey draws nil or some bytes: keys are never empty.
var optionalKey = rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 1, 20))

var policy = rapid.Custom(func(t *rapid.T) mainstem.Policy {
	p := mainstem.Policy{
		History:      rapid.Int().Draw(t, "history"),
		MaxAge:       duration.Draw(t, "max age"),
		MaxBytes:     rapid.Int64().Draw(t, "max bytes"),
		TombstoneAge: duration.Draw(t, "tombstone age"),
		NoFeed:       rapid.Bool().Draw(t, "no feed"),
	}
	if m := rapid.MapOfN(name, name, 0, 3).Draw(t, "metadata"); len(m) > 0 {
		p.Metadata = m
	}
	return p
})

var batch = rapid.Custom(func(t *rapid.T) *mainstem.Batch {
	b := mainstem.NewBatch()
	b.ID = rapid.OneOf(name, rawName).Draw(t, "id")
	b.Durability = mainstem.Durability(rapid.Int64().Draw(t, "durability"))
	if rapid.Bool().Draw(t, "timed") {
		b.Time = time.Unix(rapid.Int64Range(1, 9_000_000_000).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "ensures") {
		b.Ensure(name.Draw(t, "space"), policy.Draw(t, "policy"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		b.If(mainstem.Condition{
			Space:    name.Draw(t, "space"),
			Key:      optionalKey.Draw(t, "key"),
			Test:     mainstem.Test(rapid.IntRange(0, int(mainstem.TestNotAfter)).Draw(t, "test")),
			Version:  mainstem.Version(rapid.Uint64().Draw(t, "version")),
			Position: mainstem.Position(rapid.Uint64().Draw(t, "position")),
		})
	}
	for range rapid.IntRange(0, 5).Draw(t, "writes") {
		b.Add(mainstem.Write{
			Op:      mainstem.Op(rapid.IntRange(0, int(mainstem.OpRemove)).Draw(t, "op")),
			Space:   name.Draw(t, "space"),
			Key:     optionalKey.Draw(t, "key"),
			Value:   optionalBytes.Draw(t, "value"),
			Headers: headers.Draw(t, "headers"),
			Count:   rapid.Uint32().Draw(t, "count"),
			TTL:     duration.Draw(t, "ttl"),
			Version: mainstem.Version(rapid.Uint64().Draw(t, "version")),
		})
	}
	return b
})
