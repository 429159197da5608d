//! Operations that change something: what they invalidate is removed from the caches before the change, and nothing old is entered until the change is over.

use std::sync::Arc;

use catena_clerk::{Changing, Key};
use catena_files::{
    CreateParams, Directory, Entry, FileError, FileService, GetattrParams, Handle, Kind, LookupParams, MkdirParams,
    RemoveParams, RenameParams, Status, WriteParams, check::Target,
};

use crate::{
    caches::{Identity, keys},
    protocol::{Reply, Request},
    server::Shared,
};

/// A name in a directory, and what it stands for now.
struct Spot {
    dir: Entry,
    name: String,
    key: Key,
    target: Option<Entry>,
}

impl Shared {
    pub(crate) async fn change(self: &Arc<Self>, request: Request) -> Reply {
        let done = match request {
            Request::Write(params) => self.write(params).await,
            Request::Setattr { handle, change } => {
                let changing = self.all_of(&handle);
                let done = self.files.setattr(handle.clone(), change).await;
                self.renote(&handle).await;
                drop(changing);
                done.map(Reply::Attributes)
            }
            Request::Create(params) => self.create(params).await,
            Request::Mkdir(params) => self.mkdir(params).await,
            Request::Remove(params) => self.remove(params).await,
            Request::Rmdir { dir, name } => self.rmdir(dir, name).await,
            Request::Rename(params) => self.rename(params).await,
            other => Ok(self.read(other).await),
        };
        done.unwrap_or_else(|why| Reply::refused(&why))
    }

    /// Notes the state of a file after a change of ours, so that the change does not look like somebody else's.
    async fn renote(&self, handle: &Handle) {
        let Some(identity) = Directory::identity(handle) else { return };
        match self.files.getattr(GetattrParams { handle: handle.clone() }).await {
            Ok(now) => drop(self.note_all(identity, handle, &now)),
            Err(_) => self.known().forget(&identity),
        }
    }

    fn all_of(&self, handle: &Handle) -> Option<Changing> {
        Directory::identity(handle).map(|identity| self.caches.changing(&[identity], &[]))
    }

    async fn write(self: &Arc<Self>, params: WriteParams) -> Result<Reply, FileError> {
        let handle = params.handle.clone();
        let identity = Directory::identity(&handle).ok_or_else(|| FileError::nfs(Status::BadHandle, "write"))?;
        let (from, bytes) = (params.offset, params.data.len() as u64);
        let changing = self.caches.writing(&identity, from, bytes);
        let shared = Arc::clone(self);
        let before = move |size| {
            if from.saturating_add(bytes) > size {
                shared.caches.drop_data(&identity);
            }
        };
        let done = self.files.write_between(params, before).await;
        match &done {
            Ok((_, now)) => drop(self.note_all(identity, &handle, now)),
            Err(_) => self.renote(&handle).await,
        }
        drop(changing);
        done.map(|(done, _)| Reply::Written(done))
    }

    /// Where a name or path leads. The caller makes sure that nobody changes names meanwhile.
    async fn spot(
        &self,
        function: &str,
        dir: Option<&Handle>,
        name: Option<&str>,
        path: Option<&str>,
    ) -> Result<Spot, FileError> {
        let target = Target::of(function, dir, name, path)?;
        let mut at = match dir {
            None => self.files.root(catena_files::RootParams {}).await?,
            Some(handle) => {
                let attributes = self.files.getattr(GetattrParams { handle: handle.clone() }).await?;
                Entry { handle: handle.clone(), attributes }
            }
        };
        for parent in &target.parents {
            at = self.below(&at.handle, parent).await?;
        }
        let identity = Directory::identity(&at.handle).ok_or_else(|| FileError::nfs(Status::BadHandle, function))?;
        let found = match self.below(&at.handle, target.name).await {
            Ok(found) => Some(found),
            Err(why) if why.status() == Some(Status::NoEnt) => None,
            Err(why) => return Err(why),
        };
        let name = target.name.to_owned();
        Ok(Spot { dir: at, key: keys::name(&identity, &name), name, target: found })
    }

    async fn below(&self, dir: &Handle, name: &str) -> Result<Entry, FileError> {
        let params = LookupParams { dir: Some(dir.clone()), name: Some(name.to_owned()), path: None };
        self.files.lookup(params).await
    }

    fn change_of(&self, spots: &[&Spot]) -> Changing {
        let entries = spots.iter().flat_map(|spot| [Some(&spot.dir), spot.target.as_ref()]).flatten();
        let files: Vec<Identity> = entries.filter_map(|entry| Directory::identity(&entry.handle)).collect();
        let names: Vec<Key> = spots.iter().map(|spot| spot.key).collect();
        self.caches.changing(&files, &names)
    }

    async fn after(&self, spots: &[&Spot]) {
        for spot in spots {
            self.renote(&spot.dir.handle).await;
            if let Some(target) = &spot.target {
                self.renote(&target.handle).await;
            }
        }
    }

    async fn create(&self, params: CreateParams) -> Result<Reply, FileError> {
        let _names = self.names.lock().await;
        let spot = self.spot("create", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref()).await?;
        let changing = self.change_of(&[&spot]);
        let done = self.files.create(params).await;
        self.after(&[&spot]).await;
        if let Ok(made) = &done {
            self.note_found(made);
        }
        drop(changing);
        done.map(Reply::Entry)
    }

    async fn mkdir(&self, params: MkdirParams) -> Result<Reply, FileError> {
        let _names = self.names.lock().await;
        let spot = self.spot("mkdir", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref()).await?;
        let changing = self.change_of(&[&spot]);
        let done = self.files.mkdir(params).await;
        self.after(&[&spot]).await;
        if let Ok(made) = &done {
            self.note_found(made);
        }
        drop(changing);
        done.map(Reply::Entry)
    }

    async fn remove(&self, params: RemoveParams) -> Result<Reply, FileError> {
        let _names = self.names.lock().await;
        let spot = self.spot("remove", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref()).await?;
        let changing = self.change_of(&[&spot]);
        let done = self.files.remove(params).await;
        self.after(&[&spot]).await;
        drop(changing);
        done.map(|_| Reply::Done)
    }

    async fn rmdir(&self, dir: Option<Handle>, name: String) -> Result<Reply, FileError> {
        let _names = self.names.lock().await;
        let spot = self.spot("rmdir", dir.as_ref(), Some(&name), None).await?;
        let changing = self.change_of(&[&spot]);
        let done = self.files.rmdir(dir, name).await;
        self.after(&[&spot]).await;
        drop(changing);
        done.map(|()| Reply::Done)
    }

    async fn rename(&self, params: RenameParams) -> Result<Reply, FileError> {
        let from = self.spot("rename", params.from_dir.as_ref(), Some(&params.from_name), None).await?;
        let to = self.spot("rename", params.to_dir.as_ref(), Some(&params.to_name), None).await?;
        let moves_directory = from.target.as_ref().is_some_and(|entry| entry.attributes.kind == Kind::Directory);
        let moving = moves_directory.then(|| self.caches.moving());
        let changing = self.change_of(&[&from, &to]);
        let done = self.files.rename(params).await;
        self.after(&[&from, &to]).await;
        if done.is_ok() {
            self.after_move(&from, &to).await;
        }
        drop((changing, moving));
        done.map(|_| Reply::Done)
    }

    /// After a move, the file and everything below it are known to be at the new path.
    async fn after_move(&self, from: &Spot, to: &Spot) {
        let (Some(before), Ok(now)) = (&from.target, self.below(&to.dir.handle, &to.name).await) else { return };
        let paths = (Directory::path_of(&before.handle), Directory::path_of(&now.handle));
        match (paths, Directory::identity(&now.handle)) {
            ((Some(from), Some(to)), _) if now.attributes.kind == Kind::Directory => self.known().moved(&from, &to),
            (_, Some(identity)) => self.known().found(&identity, &now.handle),
            _ => {}
        }
    }
}
