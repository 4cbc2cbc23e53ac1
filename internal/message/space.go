package message

import (
	"fmt"
	"maps"
	"math"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// EncodePolicy makes a message of p. Metadata that is not UTF-8 is Invalid: it
// cannot cross the wire unchanged.
func EncodePolicy(p mainstem.Policy) (*pb.Policy, error) {
	for k, v := range p.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "policy", "Metadata %.40q is not valid UTF-8, which a remote log needs", k)
		}
	}
	return &pb.Policy{
		History:      int64(p.History),
		MaxAge:       encodeDuration(p.MaxAge),
		MaxBytes:     p.MaxBytes,
		TombstoneAge: encodeDuration(p.TombstoneAge),
		NoFeed:       p.NoFeed,
		Metadata:     maps.Clone(p.Metadata),
	}, nil
}

// DecodePolicy returns the policy in a message; none is the zero policy.
func DecodePolicy(in *pb.Policy) (mainstem.Policy, error) {
	history, err := decodeInt("history", in.GetHistory())
	if err != nil {
		return mainstem.Policy{}, mainstem.Refusef(mainstem.KindInvalid, "policy", "%w", err)
	}
	maxAge, err := decodeDuration("max_age", in.GetMaxAge())
	if err != nil {
		return mainstem.Policy{}, mainstem.Refusef(mainstem.KindInvalid, "policy", "%w", err)
	}
	tombstoneAge, err := decodeDuration("tombstone_age", in.GetTombstoneAge())
	if err != nil {
		return mainstem.Policy{}, mainstem.Refusef(mainstem.KindInvalid, "policy", "%w", err)
	}
	return mainstem.Policy{
		History: history, MaxAge: maxAge, MaxBytes: in.GetMaxBytes(), TombstoneAge: tombstoneAge,
		NoFeed: in.GetNoFeed(), Metadata: in.GetMetadata(),
	}, nil
}

// EncodeSpaceInfo makes a message of s.
func EncodeSpaceInfo(s mainstem.SpaceInfo) (*pb.SpaceInfo, error) {
	policy, err := EncodePolicy(s.Policy)
	if err != nil {
		return nil, err
	}
	return &pb.SpaceInfo{
		Name: s.Name, Policy: policy, Created: encodeTime(s.Created, nil),
		Keys: s.Keys, Records: s.Records, Bytes: s.Bytes,
		Last: uint64(s.Last), Updated: encodeTime(s.Updated, nil),
	}, nil
}

// DecodeSpaceInfo returns the description of a space in a message.
func DecodeSpaceInfo(in *pb.SpaceInfo) (mainstem.SpaceInfo, error) {
	policy, err := DecodePolicy(in.GetPolicy())
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	created, err := decodeTime("created", in.GetCreated())
	if err != nil {
		return mainstem.SpaceInfo{}, mainstem.Refusef(mainstem.KindInvalid, "space", "%w", err)
	}
	updated, err := decodeTime("updated", in.GetUpdated())
	if err != nil {
		return mainstem.SpaceInfo{}, mainstem.Refusef(mainstem.KindInvalid, "space", "%w", err)
	}
	return mainstem.SpaceInfo{
		Name: in.GetName(), Policy: policy, Created: created,
		Keys: in.GetKeys(), Records: in.GetRecords(), Bytes: in.GetBytes(),
		Last: mainstem.Position(in.GetLast()), Updated: updated,
	}, nil
}

// EncodeLimits makes a message of l.
func EncodeLimits(l mainstem.Limits) *pb.Limits {
	return &pb.Limits{
		MaxValue: int64(l.MaxValue), MaxBatchBytes: int64(l.MaxBatchBytes), MaxBatchWrites: int64(l.MaxBatchWrites),
	}
}

// DecodeLimits returns the limits in a message.
func DecodeLimits(in *pb.Limits) mainstem.Limits {
	bound := func(n int64) int { return int(min(max(n, 0), math.MaxInt)) }
	return mainstem.Limits{
		MaxValue: bound(in.GetMaxValue()), MaxBatchBytes: bound(in.GetMaxBatchBytes()), MaxBatchWrites: bound(in.GetMaxBatchWrites()),
	}
}

// decodeInt refuses numbers that an int of this machine cannot hold.
func decodeInt(field string, n int64) (int, error) {
	if int64(int(n)) != n {
		return 0, fmt.Errorf("%s is %d: out of range", field, n)
	}
	return int(n), nil
}
