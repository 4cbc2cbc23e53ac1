package domains_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/msgpack"
	"github.com/mainstemdev/mainstem/codec/protobuf"
	"github.com/mainstemdev/mainstem/event"
)

// measured is the event of a sensor.
type measured struct {
	Sensor  string
	Celsius float64
}

// An event type has a codec. Events that were stored as JSON before are still read, because each
// has its content type.
func TestMessagePack(t *testing.T) {
	ctx, s := t.Context(), store(t, "sensors")
	before, types := event.NewTypes(nil), event.NewTypes(nil)
	err := errors.Join(
		event.Register[measured](before, "Measured"),
		event.Register[measured](types, "Measured", event.WithCodec(msgpack.Codec, codec.JSON)),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := measured{"roof", 21.5}
	for _, with := range []*event.Types{before, types} {
		ev, err := with.Encode(want)
		if err == nil {
			_, err = s.Append(ctx, "sensor-roof", event.AnyVersion, []event.Event{ev})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	evs, err := s.Load(ctx, "sensor-roof", nil)
	if err != nil || len(evs) != 2 || evs[0].ContentType != "application/json" || evs[1].ContentType != "application/vnd.msgpack" {
		t.Fatalf("%+v, %v", evs, err)
	}
	if len(evs[1].Data) >= len(evs[0].Data) {
		t.Errorf("MessagePack takes %d bytes, JSON %d", len(evs[1].Data), len(evs[0].Data))
	}
	for _, ev := range evs {
		if got, err := types.Decode(ev); got != want || err != nil {
			t.Errorf("%s: %+v, %v", ev.ContentType, got, err)
		}
	}
}

// Events may be generated messages.
func TestProtobuf(t *testing.T) {
	ctx, s, types := t.Context(), store(t, "deliveries"), event.NewTypes(nil)
	err := errors.Join(
		event.Register[*timestamppb.Timestamp](types, "Departed", event.WithCodec(protobuf.Codec)),
		event.Register[*durationpb.Duration](types, "Delayed", event.WithCodec(protobuf.Codec)),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []proto.Message{&timestamppb.Timestamp{Seconds: 1_700_000_000}, &durationpb.Duration{Seconds: 90}}
	for _, m := range want {
		ev, err := types.Encode(m)
		if err == nil {
			_, err = s.Append(ctx, "delivery-1", event.AnyVersion, []event.Event{ev})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	evs, err := s.Load(ctx, "delivery-1", nil)
	if err != nil || len(evs) != 2 {
		t.Fatalf("%d events, %v", len(evs), err)
	}
	for i, ev := range evs {
		got, err := types.Decode(ev)
		if m, ok := got.(proto.Message); err != nil || !ok || !proto.Equal(m, want[i]) {
			t.Errorf("%s: %v, %v", ev.Type, got, err)
		}
	}
}
