package message

import (
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// MaxEnsures is how many spaces one batch may create over the wire.
const MaxEnsures = 4096

func encodeCondition(c mainstem.Condition) *pb.Condition {
	out := new(pb.Condition)
	fillCondition(out, c)
	return out
}

func fillCondition(out *pb.Condition, c mainstem.Condition) {
	out.Space, out.Key, out.Test, out.Version, out.Position = c.Space, c.Key, pb.Test(c.Test), uint64(c.Version), uint64(c.Position)
}

func decodeCondition(in *pb.Condition) (mainstem.Condition, error) {
	test := in.GetTest()
	if test < 0 || test > pb.Test_TEST_NOT_AFTER {
		return mainstem.Condition{}, fmt.Errorf("test %d is not one that this version knows", test)
	}
	return mainstem.Condition{
		Space: in.GetSpace(), Key: in.GetKey(), Test: mainstem.Test(test), Version: mainstem.Version(in.GetVersion()),
		Position: mainstem.Position(in.GetPosition()),
	}, nil
}

// DecodeBatch adds what is in a message to the empty batch b.
func DecodeBatch(in *pb.CommitRequest, b *mainstem.Batch) error {
	b.ID, b.Durability = string(in.GetId()), mainstem.Durability(in.GetDurability())
	t, err := decodeTime("time", in.GetTime())
	if err != nil {
		return mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", err)
	}
	b.Time = t
	if n := len(in.GetEnsures()); n > MaxEnsures {
		return mainstem.Refusef(mainstem.KindInvalid, "commit", "the batch ensures %d spaces: the limit is %d; split it", n, MaxEnsures)
	}
	for i, e := range in.GetEnsures() {
		p, err := DecodePolicy(e.GetPolicy())
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "commit", "space %d to ensure: %w", i, err)
		}
		b.Ensure(e.GetSpace(), p)
	}
	for i, c := range in.GetConditions() {
		condition, err := decodeCondition(c)
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "commit", "condition %d: %w", i, err)
		}
		b.If(condition)
	}
	for i, w := range in.GetWrites() {
		write, err := decodeWrite(w)
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "commit", "write %d: %w", i, err)
		}
		b.Add(write)
	}
	return nil
}

func decodeWrite(in *pb.Write) (mainstem.Write, error) {
	op := in.GetOp()
	if op < 0 || op > pb.Op_OP_REMOVE {
		return mainstem.Write{}, fmt.Errorf("operation %d is not one that this version knows", op)
	}
	ttl, err := decodeDuration("ttl", in.GetTtl())
	if err != nil {
		return mainstem.Write{}, err
	}
	return mainstem.Write{
		Op: mainstem.Op(op), Space: in.GetSpace(), Key: in.GetKey(), Value: in.GetValue(),
		Headers: decodeHeaders(in.GetHeaders(), nil), Count: in.GetCount(), TTL: ttl,
		Version: mainstem.Version(in.GetVersion()),
	}, nil
}

// EncodeReceipt makes a message of r.
func EncodeReceipt(r mainstem.Receipt) *pb.CommitResponse {
	out := &pb.CommitResponse{
		First: uint64(r.First), Last: uint64(r.Last), Time: encodeTime(r.Time, nil), Duplicate: r.Duplicate,
	}
	if len(r.Versions) > 0 {
		out.Versions = make([]uint64, len(r.Versions))
		for i, v := range r.Versions {
			out.Versions[i] = uint64(v)
		}
	}
	return out
}

// DecodeReceipt returns the receipt in a message.
func DecodeReceipt(in *pb.CommitResponse) (mainstem.Receipt, error) {
	t, err := decodeTime("time", in.GetTime())
	if err != nil {
		return mainstem.Receipt{}, mainstem.Refusef(mainstem.KindInvalid, "commit", "%w", err)
	}
	out := mainstem.Receipt{
		First: mainstem.Position(in.GetFirst()), Last: mainstem.Position(in.GetLast()), Time: t, Duplicate: in.GetDuplicate(),
	}
	if len(in.GetVersions()) > 0 {
		out.Versions = make([]mainstem.Version, len(in.Versions))
		for i, v := range in.Versions {
			out.Versions[i] = mainstem.Version(v)
		}
	}
	return out, nil
}

func encodeDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// decodeDuration refuses durations beyond Go's, about 292 years.
func decodeDuration(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("%s: %w", field, err)
	}
	out := d.AsDuration()
	if back := durationpb.New(out); back.Seconds != d.Seconds || back.Nanos != d.Nanos {
		return 0, fmt.Errorf("%s is %ds: the limit is about 292 years", field, d.Seconds)
	}
	return out, nil
}
