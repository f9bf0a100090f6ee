"""kinds.py: the kinds of files below an engine's data folder, the ways to damage one, and what that may cost."""
import re

ID = r"[0-9a-f]{64}"


class Kind:
    """One kind of file. silent: ways in which damage cannot be told from what the file may hold, or costs nothing worth
    telling. costs: what may be gone or unusable afterwards: nothing, container, image, volume, network, or layer, with the
    images and containers that stand on it."""

    def __init__(self, name, pattern, costs="nothing", silent=(), ways=None):
        self.name, self.pattern, self.costs = name, re.compile(pattern + "$"), costs
        self.silent, self.ways = silent, WAYS if ways is None else ways


CONTENT = ("empty", "half", "object", "garbage", "another")
PLACE = ("folder", "link")
WAYS = CONTENT + PLACE
UNREADABLE = "unreadable"
ANY = (*WAYS, UNREADABLE)

KINDS = [
    # What the engine says of itself.
    Kind("engine", "engine.json"),
    # Containers: the record is the container, unless its state stands in for it; the name of a phase is all that it holds;
    # the others are written at each start. A log is what it is. A power cut leaves states empty.
    Kind("container", f"containers/{ID}/record.json", costs="container"),
    Kind("state", f"containers/{ID}/state.json", silent=("empty",)),
    Kind("phase", f"containers/{ID}/(started|stopped|removing)", silent=ANY),
    Kind("hosts", f"containers/{ID}/(hostname|hosts|resolv.conf)", silent=(*CONTENT, UNREADABLE)),
    Kind("log", f"containers/{ID}/{ID}-json.log", silent=CONTENT),
    Kind("volume", r"volumes/[^/]+/volume.json", costs="volume"),
    Kind("network", f"networks/{ID}.json", costs="network"),
    # Events: a journal that ends early is what a crash leaves; damaged lines are left out.
    Kind("events", r"events/\d{20}.events", silent=("empty", "half")),
    # Caches: made anew. A filter that is not the one that was kept is not used.
    Kind("seccomp", r"cache/seccomp/[0-9a-f]{32}\.bpf", silent=ANY),
    Kind("build-uses", "build/used.json", silent=("object",)),
    Kind("build-cache", f"build/cache/{ID}/record.json"),
    # Storage.
    Kind("driver", "storage/moss-driver"),
    Kind("ballast", r"storage/moss-ballast(\.\d\d)?", silent=CONTENT),
    Kind("storage-lock", r"storage/(storage|userns|overlay-(layers/layers|images/images|containers/containers))\.lock", silent=CONTENT),
    Kind("mount-program", r"storage/overlay/\.has-mount-program", silent=CONTENT),
    Kind("layers-index", r"storage/overlay-layers/layers\.json"),
    Kind("steps-index", r"storage/overlay-layers/volatile-layers\.json"),
    Kind("container-name", rf"storage/moss-containers/{ID}\.({ID})?", silent=ANY),
    Kind("images-index", r"storage/overlay-images/images\.json"),
    Kind("index-copy", r"storage/overlay-(layers/(layers|volatile-layers)|images/images)\.bak", silent=("another",)),
    Kind("headers", f"storage/overlay-layers/{ID}\\.tar-split\\.gz", silent=ANY),
    Kind("config", f"storage/overlay-images/{ID}/=c2hhMjU2O.*", costs="image"),
    Kind("manifest", f"storage/overlay-images/{ID}/(manifest|=bWFuaWZlc3Q.*)"),
    Kind("step", f"storage/moss-steps/{ID}"),
    Kind("place", f"storage/overlay/{ID}/(link|lower|lower-layers)"),
    Kind("short-name", "storage/overlay/l/[A-Z2-7]{26}", silent=ANY, ways=["empty", "folder", "link"]),
    # Folders of one thing: all that becomes of them is that they cannot be read.
    Kind("container-folder", f"containers/{ID}", costs="container", ways=[]),
    Kind("volume-folder", r"volumes/[^/]+", costs="volume", ways=[]),
    Kind("build-cache-folder", f"build/cache/{ID}", ways=[]),
    Kind("layer-folder", f"storage/overlay/{ID}", costs="layer", ways=[]),
    Kind("image-folder", f"storage/overlay-images/{ID}", costs="image", ways=[]),
]

# Below these lies what users keep: the engine does not look at it.
CONTENTS = re.compile(rf"(storage/overlay/{ID}/(diff|work|merged|empty)|volumes/[^/]+/_data|build/cache/{ID}/files)(/|$)")


def kind_of(path):
    for kind in KINDS:
        if kind.pattern.match(path):
            return kind
    return None
