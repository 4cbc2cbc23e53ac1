package kafka_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka"
)

const (
	groupSession   = "consumer.session.timeout.ms"
	groupHeartbeat = "consumer.heartbeat.interval.ms"
)

// shownGroup returns the configurations of a group as a client sees them.
func shownGroup(c *raw, version int16, name string, keys ...string) []string {
	c.t.Helper()
	got := describe(c, version, kmsg.ConfigResourceTypeGroupConfig, name, keys...)
	if got.ErrorCode != 0 {
		c.t.Fatalf("%v %s", kerr.ErrorForCode(got.ErrorCode), deref(got.ErrorMessage))
	}
	var out []string
	for _, one := range got.Configs {
		text := one.Name + "=" + deref(one.Value) + " " + one.Source.String()
		for _, s := range one.ConfigSynonyms {
			text += ", " + s.Name + "=" + deref(s.Value) + " " + s.Source.String()
		}
		if one.ReadOnly || one.IsSensitive || version >= 3 && (one.ConfigType != kmsg.ConfigTypeInt || deref(one.Documentation) == "") {
			c.t.Errorf("version %d: %+v", version, one)
		}
		out = append(out, text)
	}
	return out
}

func TestDescribeGroupConfigs(t *testing.T) {
	b := start(t, &kafka.Options{GroupHeartbeat: 7 * time.Second}, nil)
	c := b.raw(t)
	alterGroup := func(changes ...change) {
		t.Helper()
		got := alter(c, 1, false, kmsg.ConfigResourceTypeGroupConfig, "g", changes...)
		coded(t, got.ErrorCode, got.ErrorMessage, nil)
	}
	own := []string{
		groupHeartbeat + "=7000 STATIC_BROKER_CONFIG, group." + groupHeartbeat + "=7000 STATIC_BROKER_CONFIG, group." + groupHeartbeat + "=5000 DEFAULT_CONFIG",
		groupSession + "=45000 DEFAULT_CONFIG, group." + groupSession + "=45000 DEFAULT_CONFIG",
	}
	for v := int16(1); v <= 4; v++ {
		if diff := cmp.Diff(own, shownGroup(c, v, "g")); diff != "" {
			t.Errorf("version %d, a group that is not there: %s", v, diff)
		}
	}
	alterGroup(change{groupHeartbeat, kmsg.IncrementalAlterConfigOpSet, "9000"})
	want := []string{groupHeartbeat + "=9000 GROUP_CONFIG, " + groupHeartbeat + "=9000 GROUP_CONFIG, group." + groupHeartbeat + "=7000 STATIC_BROKER_CONFIG, group." + groupHeartbeat + "=5000 DEFAULT_CONFIG"}
	if diff := cmp.Diff(want, shownGroup(c, 4, "g", groupHeartbeat, "none")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(own, shownGroup(c, 4, "other")); diff != "" {
		t.Errorf("another group: %s", diff)
	}
	alterGroup(change{groupHeartbeat, kmsg.IncrementalAlterConfigOpDelete, ""})
	if diff := cmp.Diff(own, shownGroup(c, 4, "g")); diff != "" {
		t.Error(diff)
	}
	got := describe(c, 4, kmsg.ConfigResourceTypeGroupConfig, "")
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidRequest, "empty")
}

func TestAlterGroupConfigs(t *testing.T) {
	const set, del, add = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
	b := start(t, nil, nil)
	c := b.raw(t)
	values := func() map[string]string {
		out := map[string]string{}
		for _, one := range describe(c, 4, kmsg.ConfigResourceTypeGroupConfig, "g").Configs {
			if one.Source == kmsg.ConfigSourceGroupConfig {
				out[one.Name] = deref(one.Value)
			}
		}
		return out
	}
	for _, tt := range []struct {
		changes []change
		want    *kerr.Error
		mention string
		after   map[string]string
	}{
		{[]change{{groupSession, set, "50000"}, {groupHeartbeat, set, " 6000 "}}, nil, "", map[string]string{groupSession: "50000", groupHeartbeat: "6000"}},
		{[]change{{groupSession, set, "60000"}, {groupHeartbeat, del, ""}}, nil, "", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, del, ""}, {"no.such", del, ""}}, nil, "", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, set, "6000"}, {groupSession, set, "60001"}}, kerr.InvalidConfig, "want 45000 to 60000", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, set, "4999"}}, kerr.InvalidConfig, "want 5000 to 15000", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, set, "0"}}, kerr.InvalidConfig, "from 1 on", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, set, "99999999999"}}, kerr.InvalidConfig, "99999999999", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, set, "soon"}}, kerr.InvalidConfig, "soon", map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, set, "null"}}, kerr.InvalidConfig, groupHeartbeat, map[string]string{groupSession: "60000"}},
		{[]change{{groupHeartbeat, add, "6000"}}, kerr.InvalidConfig, groupHeartbeat, map[string]string{groupSession: "60000"}},
		{[]change{{"share.session.timeout.ms", set, "45000"}}, kerr.InvalidConfig, `"share.session.timeout.ms" of a group: want consumer.`, map[string]string{groupSession: "60000"}},
		{[]change{{groupSession, set, "50000"}, {groupSession, del, ""}}, kerr.InvalidRequest, groupSession, map[string]string{groupSession: "60000"}},
	} {
		for _, version := range []int16{0, 1} {
			before := values()
			got := alter(c, version, true, kmsg.ConfigResourceTypeGroupConfig, "g", tt.changes...)
			coded(t, got.ErrorCode, got.ErrorMessage, tt.want, tt.mention)
			if diff := cmp.Diff(before, values()); diff != "" {
				t.Errorf("validating %v changed: %s", tt.changes, diff)
			}
			got = alter(c, version, false, kmsg.ConfigResourceTypeGroupConfig, "g", tt.changes...)
			coded(t, got.ErrorCode, got.ErrorMessage, tt.want, tt.mention)
			if diff := cmp.Diff(tt.after, values()); diff != "" {
				t.Errorf("after %v: %s", tt.changes, diff)
			}
		}
	}
	got := alter(c, 1, false, kmsg.ConfigResourceTypeGroupConfig, "", change{groupSession, set, "50000"})
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidRequest, "empty")

	// The older request replaces all configurations.
	req := kmsg.NewPtrAlterConfigsRequest()
	one := kmsg.NewAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
	one.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: groupHeartbeat, Value: kmsg.StringPtr("8000")}}
	req.Resources = append(req.Resources, one)
	replaced := ask[*kmsg.AlterConfigsResponse](c, req, 2).Resources[0]
	coded(t, replaced.ErrorCode, replaced.ErrorMessage, nil)
	if diff := cmp.Diff(map[string]string{groupHeartbeat: "8000"}, values()); diff != "" {
		t.Error(diff)
	}
	req.Resources[0].Configs[0].Name = "no.such"
	replaced = ask[*kmsg.AlterConfigsResponse](c, req, 2).Resources[0]
	coded(t, replaced.ErrorCode, replaced.ErrorMessage, kerr.InvalidConfig, "no.such")
}
