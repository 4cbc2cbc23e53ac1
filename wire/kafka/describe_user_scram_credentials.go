package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeUserSCRAMCredentials, version 0 (KIP-554).

// describeUserScramCredentials answers with the mechanisms and iterations of the credentials
// of users, without salts and keys; of all users if the request names none.
func (s *Server) describeUserScramCredentials(ctx context.Context, c *conn, req *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if len(req.Users) == 0 {
		err := s.eachUser(ctx, func(name string, cs credentials) {
			resp.Results = append(resp.Results, describedUser(name, cs))
		})
		if resp.ErrorCode, resp.ErrorMessage = s.outcome(c, "DescribeUserScramCredentials", err); err != nil {
			resp.Results = nil
		}
		return resp
	}
	names := make([]string, len(req.Users))
	for i := range req.Users {
		names[i] = req.Users[i].Name
	}
	for i, double := range once(names) {
		resp.Results = append(resp.Results, s.describeUser(ctx, c, names[i], double))
	}
	return resp
}

func (s *Server) describeUser(ctx context.Context, c *conn, name string, double bool) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	var cs credentials
	err := scramUser(name)
	switch {
	case double:
		err = refuse(kerr.DuplicateResource, "the request names the user %q more than once", name)
	case err == nil:
		if cs, _, err = s.user(ctx, name); err == nil && len(cs) == 0 {
			err = noUser(name)
		}
	}
	out := describedUser(name, cs)
	out.ErrorCode, out.ErrorMessage = s.outcome(c, "DescribeUserScramCredentials", err)
	return out
}

func describedUser(name string, cs credentials) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	out.User = name
	for i := range cs {
		one := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		one.Mechanism, one.Iterations = int8(cs[i].kind), int32(cs[i].iterations)
		out.CredentialInfos = append(out.CredentialInfos, one)
	}
	return out
}

// noUser returns the refusal for a user, or a credential of a user, that does not exist.
func noUser(name string) error {
	return refuse(kerr.ResourceNotFound, "user %q has no such credential", name)
}

// scramUser returns a refusal if no user can have that name.
func scramUser(name string) error {
	if err := validateUser(name); err != nil {
		return refuse(kerr.UnacceptableCredential, "%v", err)
	}
	return nil
}
