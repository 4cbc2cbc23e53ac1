package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// DescribeConfigs, versions 1 to 4.
//
//	v1  where a value comes from, synonyms (KIP-226)
//	v3  types and documentation (KIP-569)
//
// Topics, groups and the broker have configurations. Those of the broker cannot be changed.

// describeConfigs answers how topics, groups and the broker are configured, and where the
// values come from.
func (s *Server) describeConfigs(ctx context.Context, c *conn, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	done := map[configResource]bool{}
	for i := range req.Resources {
		asked := &req.Resources[i]
		k := configResource{asked.ResourceType, asked.ResourceName}
		if done[k] {
			continue // a request that repeats itself gets one answer
		}
		done[k] = true
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		entries, err := s.entriesOf(ctx, k)
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "DescribeConfigs", err)
		wanted := map[string]bool{}
		for _, name := range asked.ConfigNames {
			wanted[name] = true
		}
		for i := range entries {
			if asked.ConfigNames == nil || wanted[entries[i].name] {
				out.Configs = append(out.Configs, entries[i].describe(req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// configResource is what has configurations.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

func (s *Server) entriesOf(ctx context.Context, r configResource) ([]configEntry, error) {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		src, err := s.described(ctx, r.name, topic.ID{})
		if err != nil {
			return nil, err
		}
		if t, ok := src.(*topic.Topic); ok {
			return topicEntries(t.Config(), false), nil
		}
		return eventEntries(), nil
	case kmsg.ConfigResourceTypeBroker:
		if err := s.isBroker(r.name); err != nil {
			return nil, err
		}
		if r.name == "" { // what was set for all brokers while they run: nothing can be
			return nil, nil
		}
		return s.brokerEntries(), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		return s.groupEntries(ctx, r.name)
	}
	return nil, unconfigured(r.kind)
}

func (e *configEntry) describe(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly = e.name, kmsg.StringPtr(e.value), e.readOnly
	out.Source, out.ConfigType = e.source, e.kind
	out.IsDefault = e.source == kmsg.ConfigSourceDefaultConfig
	if req.IncludeSynonyms {
		out.ConfigSynonyms = slices.Clip(e.synonyms())
	}
	if req.IncludeDocumentation {
		out.Documentation = kmsg.StringPtr(e.doc)
	}
	return out
}
