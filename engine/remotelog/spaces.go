package remotelog

import (
	"context"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// CreateSpace creates a space. It is sent once: if the outcome is unknown, call Space to find
// out.
func (l *Log) CreateSpace(ctx context.Context, name string, p mainstem.Policy) error {
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return err
	}
	policy, err := message.EncodePolicy(p)
	if err != nil {
		return err
	}
	c := call{op: "create space", space: name, writes: true}
	_, err = ask(ctx, l, c, createSpaceMethod, &pb.CreateSpaceRequest{Name: name, Policy: policy}, never)
	return err
}

// AlterSpace gives a space a new policy. It is sent once.
func (l *Log) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	c := call{op: "alter space", space: name, writes: true}
	if err := c.reachable(); err != nil {
		return err
	}
	policy, err := message.EncodePolicy(p)
	if err != nil {
		return err
	}
	_, err = ask(ctx, l, c, alterSpaceMethod, &pb.AlterSpaceRequest{Name: name, Policy: policy}, never)
	return err
}

// DropSpace removes a space and all its records. It is sent once.
func (l *Log) DropSpace(ctx context.Context, name string) error {
	c := call{op: "drop space", space: name, writes: true}
	if err := c.reachable(); err != nil {
		return err
	}
	_, err := ask(ctx, l, c, dropSpaceMethod, &pb.DropSpaceRequest{Name: name}, never)
	return err
}

// Space returns the description of one space.
func (l *Log) Space(ctx context.Context, name string) (mainstem.SpaceInfo, error) {
	c := call{op: "space", space: name}
	if err := c.reachable(); err != nil {
		return mainstem.SpaceInfo{}, err
	}
	out, err := ask(ctx, l, c, spaceMethod, &pb.SpaceRequest{Name: name}, ifLost)
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	info, err := message.DecodeSpaceInfo(out.Space)
	if err != nil {
		return mainstem.SpaceInfo{}, c.fail(mainstem.KindInternal, mainstem.NoOutcome, err)
	}
	return info, nil
}

// Spaces yields the spaces whose names begin with prefix, sorted by name.
func (l *Log) Spaces(ctx context.Context, prefix string) iter.Seq2[mainstem.SpaceInfo, error] {
	return func(yield func(mainstem.SpaceInfo, error) bool) {
		c := call{op: "spaces"}
		in := &pb.SpacesRequest{Prefix: validPart(prefix)}
		more := true
		err := receive(ctx, l, c, spacesMethod, in, func(m *pb.SpacesResponse) error {
			for _, s := range m.Spaces {
				info, err := message.DecodeSpaceInfo(s)
				if err != nil {
					return c.fail(mainstem.KindInternal, mainstem.NoOutcome, err)
				}
				if !strings.HasPrefix(info.Name, prefix) {
					continue
				}
				if more = yield(info, nil); !more {
					return errEnough
				}
			}
			return nil
		})
		if err != nil && more {
			yield(mainstem.SpaceInfo{}, err)
		}
	}
}

// validPart returns the longest prefix of s that is UTF-8. A prefix of names may end within a
// character, which cannot be sent.
func validPart(s string) string {
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return s[:n]
}
