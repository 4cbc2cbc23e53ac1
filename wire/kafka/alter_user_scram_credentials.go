package kafka

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterUserSCRAMCredentials, version 0 (KIP-554).

// alterUserScramCredentials sets and deletes credentials. The changes of one user are one
// commit; a mistake in one of them refuses all changes of that user. Clients send salted
// passwords. The results are in the order of the users' names.
func (s *Server) alterUserScramCredentials(ctx context.Context, c *conn, req *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse {
	resp := req.ResponseKind().(*kmsg.AlterUserSCRAMCredentialsResponse)
	changes := map[string]*userChange{}
	of := func(name string) *userChange {
		if changes[name] == nil {
			changes[name] = &userChange{err: scramUser(name)}
		}
		return changes[name]
	}
	for _, d := range req.Deletions {
		ch := of(d.Name)
		ch.add(scramKind(d.Mechanism))
		ch.deleted = append(ch.deleted, scramKind(d.Mechanism))
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		ch := of(u.Name)
		ch.add(scramKind(u.Mechanism))
		ch.set(u)
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		ch := changes[name]
		if ch.err == nil {
			ch.err = s.updateUser(ctx, name, func(cs credentials) (credentials, error) { return ch.apply(name, cs) })
		}
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User = name
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "AlterUserScramCredentials", ch.err)
		resp.Results = append(resp.Results, out)
	}
	return resp
}

// userChange is the changes of a request to one user.
type userChange struct {
	kinds   []scramKind // that the request has named: each at most once
	deleted []scramKind
	added   []credential // also those that replace one
	err     error        // the first mistake; the user is not changed then
}

func (ch *userChange) fail(err error) {
	if ch.err == nil {
		ch.err = err
	}
}

// add records that the request names a kind of SCRAM. An unknown kind, or one that it has
// named before, is a mistake.
func (ch *userChange) add(kind scramKind) {
	switch {
	case !slices.Contains(scramKinds, kind):
		ch.fail(refuse(kerr.UnsupportedSaslMechanism, "unknown mechanism %d: want %d (%s) or %d (%s)", kind, scram256, ScramSHA256, scram512, ScramSHA512))
	case slices.Contains(ch.kinds, kind):
		ch.fail(refuse(kerr.DuplicateResource, "the request changes the credential for %s more than once", kind.name()))
	default:
		ch.kinds = append(ch.kinds, kind)
	}
}

// set adds a new credential, if it is in the limits.
func (ch *userChange) set(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) {
	if ch.err != nil {
		return
	}
	kind := scramKind(u.Mechanism)
	switch {
	case u.Iterations < MinIterations || u.Iterations > MaxIterations:
		ch.fail(refuse(kerr.UnacceptableCredential, "%d iterations: want %d to %d", u.Iterations, MinIterations, MaxIterations))
	case len(u.Salt) == 0 || len(u.Salt) > maxSalt:
		ch.fail(refuse(kerr.UnacceptableCredential, "a salt of %d bytes: want 1 to %d", len(u.Salt), maxSalt))
	case len(u.SaltedPassword) != kind.size():
		ch.fail(refuse(kerr.UnacceptableCredential, "a salted password of %d bytes: %s makes %d", len(u.SaltedPassword), kind.name(), kind.size()))
	default:
		ch.added = append(ch.added, saltedCredential(kind, u.SaltedPassword, u.Salt, int(u.Iterations)))
	}
}

// apply returns the credentials of a user after the change. Deleting one that the user does
// not have is refused.
func (ch *userChange) apply(name string, cs credentials) (credentials, error) {
	for _, kind := range ch.deleted {
		if cs.of(kind) == nil {
			return nil, noUser(name)
		}
		cs = cs.without(kind)
	}
	for _, c := range ch.added {
		cs = cs.with(c)
	}
	return cs, nil
}
