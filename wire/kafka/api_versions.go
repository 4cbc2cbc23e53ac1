package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// features are the finalized features of the cluster: clients switch to the newer
// group protocol (KIP-848) and to the second version of transactions (KIP-890) when
// they see them. Both older forms are served beside them.
var features = []struct {
	name string
	max  int16
}{
	{"group.version", 1},
	{"transaction.version", 2},
}

// softwareName is what KIP-511 allows for the name and version of a client.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions answers which requests are served, in which versions.
func (s *Server) apiVersions(_ context.Context, _ *conn, req *kmsg.ApiVersionsRequest) *kmsg.ApiVersionsResponse {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if req.Version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	resp.ApiKeys = apiKeys()
	for _, f := range features {
		supported := kmsg.NewApiVersionsResponseSupportedFeature()
		supported.Name, supported.MaxVersion = f.name, f.max
		finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = f.name, f.max, f.max
		resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	}
	resp.FinalizedFeaturesEpoch = 1
	return resp
}

// apiVersionsFallback answers a version of the request that is not known: in version
// 0, with the versions that are (KIP-511).
func apiVersionsFallback() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = apiKeys()
	return resp
}

func apiKeys() []kmsg.ApiVersionsResponseApiKey {
	var out []kmsg.ApiVersionsResponseApiKey
	for _, a := range apis {
		if a == nil {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = int16(a.key), a.min, a.max
		out = append(out, k)
	}
	return out
}
