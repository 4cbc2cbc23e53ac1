package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// IncrementalAlterConfigs, versions 0 and 1 (KIP-339).
//
// As with Kafka, a configuration that is not set can be deleted, even one with an unknown
// name: tools that copy topics, such as MirrorMaker, delete each configuration that has its
// default at the source.

// incrementalAlterConfigs changes single configurations of topics and groups. Each resource is
// altered as a whole or not at all.
func (s *Server) incrementalAlterConfigs(ctx context.Context, c *conn, req *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	keys := make([]configResource, len(req.Resources))
	for i, r := range req.Resources {
		keys[i] = configResource{r.ResourceType, r.ResourceName}
	}
	for i, double := range once(keys) {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = keys[i].kind, keys[i].name
		err := s.alter(ctx, keys[i], double, req.ValidateOnly, func(cfg topic.Config) error {
			return applyAll(cfg, keys[i].kind, req.Resources[i].Configs)
		})
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "IncrementalAlterConfigs", err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// configTypes returns the configurations of a kind of resource that can be altered, with
// their types.
func configTypes(kind kmsg.ConfigResourceType) map[string]kmsg.ConfigType {
	if kind == kmsg.ConfigResourceTypeGroupConfig {
		return groupTypes()
	}
	types := map[string]kmsg.ConfigType{}
	for _, k := range topic.ConfigKeys() {
		types[k.Name] = k.Type
	}
	return types
}

// applyAll makes all changes to the configurations of a topic or group.
func applyAll(cfg topic.Config, of kmsg.ConfigResourceType, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	known, seen := configTypes(of), map[string]bool{}
	for i := range changes {
		change := &changes[i]
		kind, ok := known[change.Name]
		switch {
		case !ok && change.Op != kmsg.IncrementalAlterConfigOpDelete && of == kmsg.ConfigResourceTypeGroupConfig:
			return unknownGroupConfig(change.Name)
		case !ok && change.Op != kmsg.IncrementalAlterConfigOpDelete:
			return refuse(kerr.InvalidConfig, "unknown configuration %q", change.Name)
		case seen[change.Name]:
			return refuse(kerr.InvalidRequest, "configuration %q is changed more than once", change.Name)
		}
		seen[change.Name] = true
		if err := apply(cfg, kind, change); err != nil {
			return err
		}
	}
	return nil
}

// apply makes one change, by Kafka's rules: append adds the elements that a list does not have
// yet, subtract removes those that it has, and both are for lists only.
func apply(cfg topic.Config, kind kmsg.ConfigType, change *kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	if change.Op == kmsg.IncrementalAlterConfigOpDelete {
		delete(cfg, change.Name)
		return nil
	}
	if change.Value == nil {
		return refuse(kerr.InvalidConfig, "configuration %q has no value", change.Name)
	}
	switch change.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		cfg[change.Name] = *change.Value
		return nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return refuse(kerr.InvalidRequest, "configuration %q: unknown operation %d", change.Name, change.Op)
	}
	if kind != kmsg.ConfigTypeList {
		return refuse(kerr.InvalidConfig, "configuration %q is not a list: it can be set and deleted, not %s", change.Name, change.Op)
	}
	have, parts := words(cfg.Get(change.Name)), words(*change.Value)
	for _, part := range parts {
		at := slices.Index(have, part)
		switch {
		case change.Op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			have = append(have, part)
		case change.Op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			have = slices.Delete(have, at, at+1)
		}
	}
	cfg[change.Name] = strings.Join(have, ",")
	return nil
}

// words returns the elements of a list: the parts between commas, without spaces around them
// and without empty ones.
func words(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
