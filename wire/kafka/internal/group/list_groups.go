package group

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// ListGroups, versions 0 to 5.
//
//	v4  states, and a filter for them (KIP-518)
//	v5  types, and a filter for them (KIP-848)

// The types of groups in answers. Simple groups are classic.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// ListGroups lists all groups by name, also those that have only offsets. After Open it answers
// COORDINATOR_LOAD_IN_PROGRESS, after which clients try again, until the groups with members are
// loaded. It does not wait: clients that give up and ask again would add to those that wait.
func (c *Coordinator) ListGroups(ctx context.Context, _ coord.Client, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	if !c.enter() {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return resp
	}
	defer c.wg.Done()
	select {
	case <-c.restored:
	default:
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return resp
	}
	err := c.survey(ctx, func(in Info) error {
		if !wanted(req.StatesFilter, in.State) || !wanted(req.TypesFilter, in.Type) {
			return nil
		}
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.ProtocolType, g.GroupState, g.GroupType = in.Name, in.ProtocolType, in.State, in.Type
		resp.Groups = append(resp.Groups, g)
		return nil
	})
	if err != nil {
		resp.Groups, resp.ErrorCode = nil, c.code("list groups", "", err)
	}
	return resp
}

// wanted reports whether a filter has a name, in any case of letters, or is empty.
func wanted(filter []string, name string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(s string) bool { return strings.EqualFold(s, name) })
}

// Info describes a group. The caller owns it.
type Info struct {
	Name         string
	Type         string      // "classic" or "consumer"
	ProtocolType string      // "consumer" for Kafka's consumers, "" if no member has ever joined
	State        string      // Kafka's name, such as "Stable"
	Epoch        int32       // the group epoch, or the generation of a classic group
	Members      int         // how many it has
	Offsets      []Committed // only from [Coordinator.Groups]: those of topics that exist
}

// Committed is a stored offset of a group.
type Committed struct {
	Topic     string
	ID        topic.ID
	Partition int32
	Offset    int64 // of the next record to read
}

// Groups returns all groups by name, with their committed offsets. A lag is the end of the
// partition less the offset. It reads all offsets from the log. After Open it waits until the groups
// with members are loaded. It fails with Closed after Close, with the error of ctx, and with the
// errors of the log.
func (c *Coordinator) Groups(ctx context.Context) ([]Info, error) {
	if !c.enter() {
		return nil, errClosed
	}
	defer c.wg.Done()
	var out []Info
	err := c.survey(ctx, func(in Info) error {
		stored, err := c.committed(ctx, in.Name)
		for i := range stored {
			s := &stored[i]
			in.Offsets = append(in.Offsets, Committed{s.Topic, s.ID, s.Partition, s.Next})
		}
		out = append(out, in)
		return err
	})
	return out, err
}

// survey calls yield for each group, by name, without its offsets, until yield fails.
func (c *Coordinator) survey(ctx context.Context, yield func(Info) error) error {
	select {
	case <-c.restored: // from then on groups with members are in memory
	case <-ctx.Done():
		return ctx.Err()
	}
	found := map[string]Info{}
	for _, stored := range []iter.Seq2[Info, error]{c.storedGroups(ctx), c.offsetGroups(ctx)} {
		for in, err := range stored {
			if err != nil {
				return err
			}
			if _, ok := found[in.Name]; !ok {
				found[in.Name] = in
			}
		}
	}
	for _, g := range c.all() {
		g.mu.Lock()
		if !g.gone && g.loaded && g.exists() {
			found[g.name] = g.info()
		}
		g.mu.Unlock()
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if err := yield(found[name]); err != nil {
			return err
		}
	}
	return nil
}

// storedGroups yields the groups that have a header in the log. It does not read members: State and
// Members are right only for groups without members.
func (c *Coordinator) storedGroups(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for rec, err := range c.log.Scan(ctx, partition.GroupSpace, mainstem.Range{Prefix: []byte{groupKind}}) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return
			}
			if err != nil {
				yield(Info{}, err)
				return
			}
			name, _, err := keyText(rec.Key[1:])
			var h header
			if err == nil {
				h, err = decodeHeader(rec.Value)
			}
			if err != nil {
				yield(Info{}, mainstem.Errorf(mainstem.KindCorrupt, "load group", "%w", err).At(partition.GroupSpace, slices.Clone(rec.Key)))
				return
			}
			if !yield(h.info(name), nil) {
				return
			}
		}
	}
}

// offsetGroups yields the groups that have offsets in the log, as simple groups.
func (c *Coordinator) offsetGroups(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for name, err := range partition.StoredGroups(ctx, c.log) {
			if !yield(Info{Name: name, Type: typeClassic, State: stateNames[empty]}, err) || err != nil {
				return
			}
		}
	}
}

// info describes a group without members.
func (h *header) info(name string) Info {
	in := Info{Name: name, Type: typeClassic, ProtocolType: h.protocolType, State: stateNames[h.state], Epoch: h.epoch}
	if h.kind == consumer {
		in.Type, in.State = typeConsumer, stateNames[empty]
	}
	return in
}

func (g *group) info() Info {
	in := g.header.info(g.name)
	in.Members = len(g.members)
	if g.kind == consumer {
		in.State = g.consumerState()
	}
	return in
}
