package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// put is a batch of one write that makes its space if needed.
func put(key, value string) *pb.CommitRequest {
	return &pb.CommitRequest{
		Ensures: []*pb.Ensure{{Space: "interop", Policy: &pb.Policy{}}},
		Writes:  []*pb.Write{{Space: "interop", Key: []byte(key), Value: []byte(value)}},
	}
}

func commit(t *testing.T, c *grpc.ClientConn, in *pb.CommitRequest, o ...grpc.CallOption) *pb.CommitResponse {
	t.Helper()
	out := new(pb.CommitResponse)
	if err := c.Invoke(t.Context(), method("Commit"), in, out, o...); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return out
}

func TestCallReturnsTheBytesWritten(t *testing.T) {
	c := dial(t, serve(t, nil))
	in := put("k", "")
	in.Writes[0].Headers = []*pb.Header{{Name: "a", Value: []byte{}}, {Name: "b"}, {RawName: []byte{0xff}, Value: []byte{0}}}
	in.Writes = append(in.Writes, &pb.Write{Space: "interop", Key: []byte{0, 0xff}})
	receipt := commit(t, c, in)
	for i, w := range in.Writes {
		out := new(pb.GetResponse)
		if err := c.Invoke(t.Context(), method("Get"), &pb.GetRequest{Space: w.Space, Key: w.Key}, out); err != nil {
			t.Fatal(err)
		}
		want := &pb.Record{
			Space: w.Space, Key: w.Key, Version: 1, Count: 1, Position: receipt.First + uint64(i),
			Time: receipt.Time, Headers: w.Headers, Value: w.Value,
		}
		if diff := cmp.Diff(want, out.Record, protocmp.Transform()); diff != "" {
			t.Errorf("record %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestErrorsCarryCodeAndDetail(t *testing.T) {
	c := dial(t, serve(t, nil))
	commit(t, c, put("k", "v"))
	conflict := put("k", "w")
	conflict.Conditions = []*pb.Condition{{Space: "interop", Key: []byte("k"), Test: pb.Test_TEST_VERSION, Version: 7}}
	for _, tc := range []struct {
		call    string
		in, out proto.Message
		code    codes.Code
		want    *pb.ErrorDetail
	}{
		{
			"Commit", conflict, new(pb.CommitResponse), codes.Aborted,
			&pb.ErrorDetail{Kind: pb.Kind_KIND_CONFLICT, Outcome: pb.Outcome_OUTCOME_NOT_WRITTEN, Want: conflict.Conditions[0], Got: 1, GotLive: true},
		},
		{
			"Get", &pb.GetRequest{Space: "interop", Key: []byte("none")}, new(pb.GetResponse), codes.NotFound,
			&pb.ErrorDetail{Kind: pb.Kind_KIND_NOT_FOUND},
		},
		{
			"CreateSpace", &pb.CreateSpaceRequest{Name: "interop"}, new(pb.CreateSpaceResponse), codes.AlreadyExists,
			&pb.ErrorDetail{Kind: pb.Kind_KIND_EXISTS, Outcome: pb.Outcome_OUTCOME_NOT_WRITTEN},
		},
	} {
		err := c.Invoke(t.Context(), method(tc.call), tc.in, tc.out)
		s, _ := status.FromError(err)
		if err == nil || s.Code() != tc.code || len(s.Details()) != 1 {
			t.Errorf("%s: got %v with details %v, want %v with one", tc.call, err, s.Details(), tc.code)
			continue
		}
		// Words are for people; programs go by these fields.
		words := protocmp.IgnoreFields(new(pb.ErrorDetail), "op", "space", "key", "hint", "cause")
		if diff := cmp.Diff(tc.want, s.Details()[0], protocmp.Transform(), words); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.call, diff)
		}
	}
}

// feed opens a stream of records.
func feed(ctx context.Context, t *testing.T, c *grpc.ClientConn, in *pb.FeedRequest, o ...grpc.CallOption) grpc.ClientStream {
	t.Helper()
	s, err := tryFeed(ctx, c, in, o...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryFeed is feed for a test that expects that it may fail.
func tryFeed(ctx context.Context, c *grpc.ClientConn, in *pb.FeedRequest, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method("Feed"), o...)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.SendMsg(in), s.CloseSend())
}

func TestStreamKeepsOrderUnderFlowControl(t *testing.T) {
	for _, encoding := range []string{"identity", gzip.Name} {
		t.Run(encoding, func(t *testing.T) {
			c := dial(t, serve(t, &rpc.Options{Compression: true}))
			const records, size = 3000, 1000 // many times the window of a stream
			for first := 0; first < records; first += 500 {
				in := put("k", "")
				in.Writes = nil
				for i := range 500 {
					in.Writes = append(in.Writes, &pb.Write{Space: "interop", Key: fmt.Appendf(nil, "%d", first+i), Value: make([]byte, size)})
				}
				commit(t, c, in, grpc.UseCompressor(encoding))
			}
			s := feed(t.Context(), t, c, &pb.FeedRequest{}, grpc.UseCompressor(encoding))
			n := 0
			for {
				m := new(pb.Records)
				err := s.RecvMsg(m)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("after %d records: %v", n, err)
				}
				for _, r := range m.Records {
					if string(r.Key) != fmt.Sprint(n) || len(r.Value) != size {
						t.Fatalf("record %d: key %q, %d bytes", n, r.Key, len(r.Value))
					}
					n++
				}
			}
			if n != records {
				t.Errorf("received %d records, want %d", n, records)
			}
		})
	}
}

func TestFollowerWakesAndEndsWhenCancelled(t *testing.T) {
	c := dial(t, serve(t, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := feed(ctx, t, c, &pb.FeedRequest{Spaces: []string{"interop"}, Follow: true})
	m := new(pb.Records)
	if err := s.RecvMsg(m); err != nil || m.Following == nil || len(m.Records) != 0 {
		t.Fatalf("first message %v, %v: want that it follows", m, err)
	}
	for i := range 3 {
		want := commit(t, c, put("k", fmt.Sprint(i)))
		m.Reset()
		if err := s.RecvMsg(m); err != nil || len(m.Records) != 1 || m.Records[0].Position != want.First {
			t.Fatalf("commit %d: got %v, %v; want the record at %d", i, m, err, want.First)
		}
	}
	cancel()
	if err := s.RecvMsg(m); status.Code(err) != codes.Canceled {
		t.Errorf("after cancelling: %v, want Canceled", err)
	}
}

func TestDeadlineReachesAFollower(t *testing.T) {
	c := dial(t, serve(t, nil))
	if err := c.Invoke(t.Context(), method("Head"), new(pb.HeadRequest), new(pb.HeadResponse)); err != nil { // connects
		t.Fatal(err)
	}
	var s grpc.ClientStream
	for timeout, open := time.Second, false; !open; timeout *= 2 { // it may be over before the stream is open
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		var err error
		if s, err = tryFeed(ctx, c, &pb.FeedRequest{Follow: true}); err != nil && (ctx.Err() == nil || timeout > testkit.Patience) {
			t.Fatal(err)
		}
		open = err == nil
	}
	for {
		err := s.RecvMsg(new(pb.Records))
		if err == nil {
			continue
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		return
	}
}

func TestTokenIsRequired(t *testing.T) {
	c := dial(t, serve(t, &rpc.Options{Token: "s3cret"}))
	for token, want := range map[string]codes.Code{
		"":              codes.Unauthenticated,
		"Bearer wrong":  codes.Unauthenticated,
		"Bearer s3cret": codes.OK,
	} {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
		}
		err := c.Invoke(ctx, method("Head"), new(pb.HeadRequest), new(pb.HeadResponse))
		if status.Code(err) != want {
			t.Errorf("with %q: got %v, want %v", token, err, want)
		}
	}
}
