package message

import (
	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// EncodeProblem makes a message of p.
func EncodeProblem(p mainstem.Problem) *pb.Problem {
	return &pb.Problem{Where: text(p.Where), What: text(p.What)}
}

// DecodeProblem returns the problem in a message.
func DecodeProblem(in *pb.Problem) mainstem.Problem {
	return mainstem.Problem{Where: in.GetWhere(), What: in.GetWhat()}
}

// EncodeCheckStats makes a message of s.
func EncodeCheckStats(s mainstem.CheckStats) *pb.CheckStats {
	return &pb.CheckStats{Spaces: s.Spaces, Keys: s.Keys, Records: s.Records, Bytes: s.Bytes}
}

// DecodeCheckStats returns the counts in a message.
func DecodeCheckStats(in *pb.CheckStats) mainstem.CheckStats {
	return mainstem.CheckStats{Spaces: in.GetSpaces(), Keys: in.GetKeys(), Records: in.GetRecords(), Bytes: in.GetBytes()}
}
