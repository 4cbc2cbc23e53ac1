package message

import (
	"slices"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// EncodeRange makes the request for a scan of space; snapshot may be nil.
func EncodeRange(space string, r mainstem.Range, snapshot []byte) *pb.ScanRequest {
	return &pb.ScanRequest{
		Space: space, Prefix: r.Prefix, Start: r.Start, End: r.End, Reverse: r.Reverse, Limit: int64(r.Limit),
		KeysOnly: r.KeysOnly, Tombstones: r.Tombstones, Snapshot: snapshot,
	}
}

// DecodeRange returns the range in a request.
func DecodeRange(in *pb.ScanRequest) (mainstem.Range, error) {
	limit, err := decodeInt("limit", in.GetLimit())
	if err != nil {
		return mainstem.Range{}, mainstem.Errorf(mainstem.KindInvalid, "scan", "%w", err)
	}
	return mainstem.Range{
		Prefix: in.GetPrefix(), Start: in.GetStart(), End: in.GetEnd(), Reverse: in.GetReverse(), Limit: limit,
		KeysOnly: in.GetKeysOnly(), Tombstones: in.GetTombstones(),
	}, nil
}

// EncodeVersions makes the request for a read of key; snapshot may be nil.
func EncodeVersions(space string, key []byte, v mainstem.Versions, snapshot []byte) *pb.ReadRequest {
	return &pb.ReadRequest{
		Space: space, Key: key, From: uint64(v.From), To: uint64(v.To), Reverse: v.Reverse, Limit: int64(v.Limit),
		Follow: v.Follow, Snapshot: snapshot,
	}
}

// DecodeVersions returns the versions in a request.
func DecodeVersions(in *pb.ReadRequest) (mainstem.Versions, error) {
	limit, err := decodeInt("limit", in.GetLimit())
	if err != nil {
		return mainstem.Versions{}, mainstem.Errorf(mainstem.KindInvalid, "read", "%w", err)
	}
	return mainstem.Versions{
		From: mainstem.Version(in.GetFrom()), To: mainstem.Version(in.GetTo()), Reverse: in.GetReverse(), Limit: limit,
		Follow: in.GetFollow(),
	}, nil
}

// EncodeFilter makes the request for a feed; snapshot may be nil. Names that are not
// UTF-8 are left out: there is no such space.
func EncodeFilter(f mainstem.Filter, snapshot []byte) *pb.FeedRequest {
	spaces := slices.DeleteFunc(slices.Clone(f.Spaces), func(name string) bool { return !utf8.ValidString(name) })
	return &pb.FeedRequest{
		Spaces: spaces, NoSpaces: f.Spaces != nil && len(spaces) == 0, KeyPrefix: f.KeyPrefix,
		After: uint64(f.After), Limit: int64(f.Limit), Follow: f.Follow, Snapshot: snapshot,
	}
}

// DecodeFilter returns the filter in a request.
func DecodeFilter(in *pb.FeedRequest) (mainstem.Filter, error) {
	limit, err := decodeInt("limit", in.GetLimit())
	if err != nil {
		return mainstem.Filter{}, mainstem.Errorf(mainstem.KindInvalid, "feed", "%w", err)
	}
	spaces := in.GetSpaces()
	if in.GetNoSpaces() && len(spaces) == 0 {
		spaces = []string{}
	}
	return mainstem.Filter{
		Spaces: spaces, KeyPrefix: in.GetKeyPrefix(), After: mainstem.Position(in.GetAfter()), Limit: limit,
		Follow: in.GetFollow(),
	}, nil
}
