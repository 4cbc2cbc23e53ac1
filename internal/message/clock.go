package message

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// EncodeClock makes a message of s.
func EncodeClock(s mainstem.ClockState) *pb.ClockResponse {
	return &pb.ClockResponse{
		Now: timestamppb.New(s.Now), Held: durationpb.New(s.Held), TimesAhead: durationpb.New(s.TimesAhead),
		Jumps: s.Jumps, SetBacks: s.SetBacks,
	}
}

// DecodeClock returns the state in a message. Fields that are not set are zero.
func DecodeClock(in *pb.ClockResponse) mainstem.ClockState {
	s := mainstem.ClockState{
		Held: in.GetHeld().AsDuration(), TimesAhead: in.GetTimesAhead().AsDuration(), Jumps: in.GetJumps(), SetBacks: in.GetSetBacks(),
	}
	if in.GetNow() != nil {
		s.Now = in.GetNow().AsTime().In(time.UTC)
	}
	return s
}
