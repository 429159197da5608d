//! The status words of NFSv3 (RFC 1813, section 2.6), with what each means for the caller.

/// Declares [`Status`] from one table: variant, NFS number, exact NFS name, meaning, what to do next.
macro_rules! statuses {
    ($($variant:ident = $number:literal, $name:ident, $meaning:literal, $advice:literal;)*) => {
        /// Why a file service refused: the error words of NFSv3 (RFC 1813, section 2.6).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $(#[doc = concat!("`", stringify!($name), "`: ", $meaning)] $variant,)*
        }

        impl Status {
            /// Every status, in the order of the RFC.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The exact NFS name, such as `NFS3ERR_NOENT`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name)),* }
            }

            /// The number that stands for it on the wire of NFS.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self { $(Self::$variant => $number),* }
            }

            /// The status with this NFS number, if there is one.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// What it means, in words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }

            /// What the caller can do next.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice),* }
            }
        }
    };
}

statuses! {
    Perm = 1, NFS3ERR_PERM, "only the owner or a privileged user may do this", "use other credentials, or change the owner at the server";
    NoEnt = 2, NFS3ERR_NOENT, "no such file or directory", "check the name, or make it with create or mkdir";
    Io = 5, NFS3ERR_IO, "the server's storage failed", "look at the server's log and disk, then try again";
    NxIo = 6, NFS3ERR_NXIO, "no such device", "look at the server's storage";
    Acces = 13, NFS3ERR_ACCES, "permission denied", "change the permissions at the server, or use other credentials";
    Exist = 17, NFS3ERR_EXIST, "it exists already", "choose another name, or create with how = \"unchecked\"";
    XDev = 18, NFS3ERR_XDEV, "the two names are on different file systems", "copy the file, then remove the first one";
    NoDev = 19, NFS3ERR_NODEV, "no such device", "look at the server's storage";
    NotDir = 20, NFS3ERR_NOTDIR, "not a directory", "check each component of the path: links are not followed";
    IsDir = 21, NFS3ERR_ISDIR, "it is a directory", "use readdir to read it; read, write, create and remove take files";
    Inval = 22, NFS3ERR_INVAL, "an argument is not valid", "correct the argument";
    FBig = 27, NFS3ERR_FBIG, "the file would be larger than the server allows", "use a smaller offset or size";
    NoSpc = 28, NFS3ERR_NOSPC, "no space is left at the server", "free space there, then write again; what was written so far may be incomplete";
    RoFs = 30, NFS3ERR_ROFS, "the file system is read-only", "write to another server, or export it for writing";
    MLink = 31, NFS3ERR_MLINK, "too many links", "use another directory";
    NameTooLong = 63, NFS3ERR_NAMETOOLONG, "the name or path is too long", "use a shorter one";
    NotEmpty = 66, NFS3ERR_NOTEMPTY, "the directory is not empty", "empty it first, or choose another name";
    DQuot = 69, NFS3ERR_DQUOT, "the owner's quota at the server is used up", "free space there, or raise the quota";
    Stale = 70, NFS3ERR_STALE, "the file that this handle stands for is gone", "look the path up again";
    Remote = 71, NFS3ERR_REMOTE, "the file is on another server", "ask that server";
    BadHandle = 10001, NFS3ERR_BADHANDLE, "this is not a handle of this service", "use a handle that this service gave, from root or lookup";
    NotSync = 10002, NFS3ERR_NOT_SYNC, "the file changed meanwhile", "read its attributes again";
    BadCookie = 10003, NFS3ERR_BAD_COOKIE, "this readdir cookie is not valid here any more", "read the directory again from its start, without a cookie";
    NotSupp = 10004, NFS3ERR_NOTSUPP, "the server does not support this", "do without it, or use another server";
    TooSmall = 10005, NFS3ERR_TOOSMALL, "the answer has no room for one entry", "ask for more entries";
    ServerFault = 10006, NFS3ERR_SERVERFAULT, "the server failed inside", "look at the server's log";
    BadType = 10007, NFS3ERR_BADTYPE, "the server does not support this type of file", "use a regular file or a directory";
    Jukebox = 10008, NFS3ERR_JUKEBOX, "the server cannot do it right now", "try again in a while";
}
