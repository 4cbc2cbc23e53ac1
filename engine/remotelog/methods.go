package remotelog

import (
	wire "github.com/mainstemdev/mainstem/internal/session"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1/mainstemv1connect"
)

type client = mainstemv1connect.LogServiceClient

// The methods of the service, for both transports.
var (
	commitMethod        = method[pb.CommitRequest, pb.CommitResponse]{wire.Commit, client.Commit}
	getMethod           = method[pb.GetRequest, pb.GetResponse]{wire.Get, client.Get}
	headMethod          = method[pb.HeadRequest, pb.HeadResponse]{wire.Head, client.Head}
	createSpaceMethod   = method[pb.CreateSpaceRequest, pb.CreateSpaceResponse]{wire.CreateSpace, client.CreateSpace}
	alterSpaceMethod    = method[pb.AlterSpaceRequest, pb.AlterSpaceResponse]{wire.AlterSpace, client.AlterSpace}
	dropSpaceMethod     = method[pb.DropSpaceRequest, pb.DropSpaceResponse]{wire.DropSpace, client.DropSpace}
	spaceMethod         = method[pb.SpaceRequest, pb.SpaceResponse]{wire.Space, client.Space}
	snapshotMethod      = method[pb.SnapshotRequest, pb.SnapshotResponse]{wire.Snapshot, client.Snapshot}
	closeSnapshotMethod = method[pb.CloseSnapshotRequest, pb.CloseSnapshotResponse]{wire.CloseSnapshot, client.CloseSnapshot}
	clockMethod         = method[pb.ClockRequest, pb.ClockResponse]{wire.Clock, client.Clock}
	infoMethod          = method[pb.InfoRequest, pb.InfoResponse]{wire.Info, client.Info}

	getManyMethod = streamMethod[pb.GetManyRequest, pb.Records]{wire.GetMany, client.GetMany}
	scanMethod    = streamMethod[pb.ScanRequest, pb.Records]{wire.Scan, client.Scan}
	readMethod    = streamMethod[pb.ReadRequest, pb.Records]{wire.Read, client.Read}
	feedMethod    = streamMethod[pb.FeedRequest, pb.Records]{wire.Feed, client.Feed}
	spacesMethod  = streamMethod[pb.SpacesRequest, pb.SpacesResponse]{wire.Spaces, client.Spaces}
	backupMethod  = streamMethod[pb.BackupRequest, pb.BackupResponse]{wire.Backup, client.Backup}
	checkMethod   = streamMethod[pb.CheckRequest, pb.CheckResponse]{wire.Check, client.Check}
)
