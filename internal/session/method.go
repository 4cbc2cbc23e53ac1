package session

// The methods of the log's service, in the order of its protocol file. The numbers cross
// the wire: add at the end only.
const (
	Commit Method = 1 + iota
	Get
	GetMany
	Scan
	Read
	Feed
	Head
	CreateSpace
	AlterSpace
	DropSpace
	Space
	Spaces
	Snapshot
	CloseSnapshot
	Backup
	Check
	Clock
	Info
	Methods // beyond all of them
)

var methodNames = [Methods]string{
	"", "Commit", "Get", "GetMany", "Scan", "Read", "Feed", "Head", "CreateSpace", "AlterSpace", "DropSpace",
	"Space", "Spaces", "Snapshot", "CloseSnapshot", "Backup", "Check", "Clock", "Info",
}

// String returns the name of the method in the protocol file.
func (m Method) String() string {
	if int(m) < len(methodNames) && m > 0 {
		return methodNames[m]
	}
	return "unknown"
}
