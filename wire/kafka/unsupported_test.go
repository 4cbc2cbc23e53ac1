package kafka_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests about ACLs are answered with the code of a broker without an authorizer, in each
// entry.
func TestACLs(t *testing.T) {
	c := start(t, nil, nil).raw(t)
	for v := int16(1); v <= 3; v++ {
		described := ask[*kmsg.DescribeACLsResponse](c, kmsg.NewPtrDescribeACLsRequest(), v)
		coded(t, described.ErrorCode, described.ErrorMessage, kerr.SecurityDisabled, "no ACLs")
		create := kmsg.NewPtrCreateACLsRequest()
		create.Creations = make([]kmsg.CreateACLsRequestCreation, 2)
		created := ask[*kmsg.CreateACLsResponse](c, create, v).Results
		remove := kmsg.NewPtrDeleteACLsRequest()
		remove.Filters = make([]kmsg.DeleteACLsRequestFilter, 3)
		removed := ask[*kmsg.DeleteACLsResponse](c, remove, v).Results
		if len(created) != 2 || len(removed) != 3 {
			t.Fatalf("version %d: %d answers to 2 ACLs, %d to 3 filters", v, len(created), len(removed))
		}
		coded(t, created[1].ErrorCode, created[1].ErrorMessage, kerr.SecurityDisabled, "no ACLs")
		coded(t, removed[2].ErrorCode, removed[2].ErrorMessage, kerr.SecurityDisabled, "no ACLs")
	}
}

// No quotas are set, and setting one is refused with the entity that was named.
func TestClientQuotas(t *testing.T) {
	c := start(t, nil, nil).raw(t)
	for v := range int16(2) {
		described := ask[*kmsg.DescribeClientQuotasResponse](c, kmsg.NewPtrDescribeClientQuotasRequest(), v)
		coded(t, described.ErrorCode, described.ErrorMessage, nil)
		if described.Entries == nil || len(described.Entries) != 0 {
			t.Errorf("version %d: the quotas are %v, want an empty list", v, described.Entries)
		}
		req := kmsg.NewPtrAlterClientQuotasRequest()
		one := kmsg.NewAlterClientQuotasRequestEntry()
		one.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: kmsg.StringPtr("ada")}, {Type: "client-id"}}
		req.Entries = append(req.Entries, one)
		altered := ask[*kmsg.AlterClientQuotasResponse](c, req, v).Entries
		if len(altered) != 1 {
			t.Fatalf("version %d: %d answers", v, len(altered))
		}
		coded(t, altered[0].ErrorCode, altered[0].ErrorMessage, kerr.InvalidRequest, "no quotas")
		var named []string
		for _, e := range altered[0].Entity {
			named = append(named, e.Type+" "+deref(e.Name))
		}
		if want := []string{"user ada", "client-id "}; !slices.Equal(named, want) {
			t.Errorf("version %d: the answer names %q, want %q", v, named, want)
		}
	}
}
