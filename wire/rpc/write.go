package rpc

import (
	"context"
	"sync"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// keepWrites is the number of writes up to which a batch is returned to the pool.
const keepWrites = 1024

// spacesPerMessage is the largest number of spaces in a message of Spaces.
const spacesPerMessage = 256

var batches = sync.Pool{New: func() any { return mainstem.NewBatch() }}

func (s *service) Commit(ctx context.Context, in *pb.CommitRequest) (*pb.CommitResponse, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	if err := message.DecodeBatch(in, b); err != nil {
		return nil, message.EncodeError(err, mainstem.NotWritten)
	}
	receipt, err := s.log.Commit(ctx, b)
	if err != nil {
		return nil, message.EncodeError(err, mainstem.Unknown)
	}
	return message.EncodeReceipt(receipt), nil
}

func putBatch(b *mainstem.Batch) {
	if max(b.Len(), len(b.Conditions()), len(b.Ensures())) <= keepWrites {
		b.Reset()
		batches.Put(b)
	}
}

func (s *service) CreateSpace(ctx context.Context, in *pb.CreateSpaceRequest) (*pb.CreateSpaceResponse, error) {
	p, err := message.DecodePolicy(in.Policy)
	if err == nil {
		err = s.log.CreateSpace(ctx, in.Name, p)
	}
	return changed(new(pb.CreateSpaceResponse), err)
}

func (s *service) AlterSpace(ctx context.Context, in *pb.AlterSpaceRequest) (*pb.AlterSpaceResponse, error) {
	p, err := message.DecodePolicy(in.Policy)
	if err == nil {
		err = s.log.AlterSpace(ctx, in.Name, p)
	}
	return changed(new(pb.AlterSpaceResponse), err)
}

func (s *service) DropSpace(ctx context.Context, in *pb.DropSpaceRequest) (*pb.DropSpaceResponse, error) {
	return changed(new(pb.DropSpaceResponse), s.log.DropSpace(ctx, in.Name))
}

// changed returns the response to a call that writes, or its error as an RPC error.
func changed[T any](response *T, err error) (*T, error) {
	if err != nil {
		return nil, message.EncodeError(err, mainstem.Unknown)
	}
	return response, nil
}

func (s *service) Space(ctx context.Context, in *pb.SpaceRequest) (*pb.SpaceResponse, error) {
	info, err := s.log.Space(ctx, in.Name)
	if err != nil {
		return nil, failed(err)
	}
	out, err := message.EncodeSpaceInfo(info)
	if err != nil {
		return nil, failed(err)
	}
	return &pb.SpaceResponse{Space: out}, nil
}

func (s *service) Spaces(ctx context.Context, in *pb.SpacesRequest, out *connect.ServerStream[pb.SpacesResponse]) error {
	return s.spaces(ctx, in, out.Send)
}

func (s *service) spaces(ctx context.Context, in *pb.SpacesRequest, send func(*pb.SpacesResponse) error) error {
	return s.stream(ctx, "spaces", func(ctx context.Context) error {
		m := new(pb.SpacesResponse)
		for info, err := range s.log.Spaces(ctx, in.Prefix) {
			if err != nil {
				return err
			}
			space, err := message.EncodeSpaceInfo(info)
			if err != nil {
				return err
			}
			if m.Spaces = append(m.Spaces, space); len(m.Spaces) < spacesPerMessage {
				continue
			}
			if err := send(m); err != nil {
				return err
			}
			m.Spaces = m.Spaces[:0]
		}
		if len(m.Spaces) == 0 {
			return nil
		}
		return send(m)
	})
}
