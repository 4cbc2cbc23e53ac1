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

// describeConfigs answers with the configurations of topics, groups and the broker, and the
// sources of their values. A resource that is named several times has one entry.
func (s *Server) describeConfigs(ctx context.Context, c *conn, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	done := map[configResource]bool{}
	for i := range req.Resources {
		asked := &req.Resources[i]
		k := configResource{asked.ResourceType, asked.ResourceName}
		if done[k] {
			continue
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

// configResource names something that has configurations.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// entriesOf returns the configurations of a resource in the order of their names.
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
		if r.name == "" { // the dynamic configurations of all brokers: there are none
			return nil, nil
		}
		return s.brokerEntries(), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		return s.groupEntries(ctx, r.name)
	}
	return nil, unconfigured(r.kind)
}

// describe returns the entry in the form of the answer, with synonyms and documentation if the
// request asks for them.
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
